package limit

// Destination is the server that budgets, limiters and breakers keep separate state for. Two Destinations are the
// same if both fields are equal, so the caller must write Scheme and Host in one form.
type Destination struct {
	// Scheme is the URL's scheme, such as "https".
	Scheme string
	// Host is the URL's host, with the port if the URL has one.
	Host string
}

// String returns "scheme://host".
func (d Destination) String() string { return d.Scheme + "://" + d.Host }
