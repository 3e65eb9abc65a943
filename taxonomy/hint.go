package taxonomy

import (
	"maps"
	"slices"
	"strings"
)

// Hint returns advice for the caller, in a few lower-case words without a full stop. An unknown code has the hint
// of the closest known code above it, or else of its family. The hint is empty for the zero Code and for a code of
// no known family.
func (c Code) Hint() string {
	m, _ := c.meaning()
	return m.hint
}

// Transient reports whether the same request, under the same key, may succeed later. An unknown code is like the
// closest known code above it, or else like its family. A code of no known family is not transient.
func (c Code) Transient() bool { return c.class() == ClassTransient }

// Codes returns all known codes, sorted, without the families. Each call returns a new slice.
func Codes() []Code { return slices.Sorted(maps.Keys(codes)) }

func (c Code) class() Class {
	m, _ := c.meaning()
	return m.class
}

// known reports whether c is in the table, or refines a code in it. A detail below a known code has the meaning of
// that code.
func (c Code) known() bool {
	_, exact := c.meaning()
	return exact
}

// neverRetried reports whether no directive and no status can make the code retryable.
func (c Code) neverRetried() bool {
	return c.In(PayloadMismatch) || c.In(KeyExpired) || c.In(OutcomeUnknown) || c.In(ResultNotStored)
}

// meaning returns the closest entry at or above c. named is false if only the family was found, or nothing.
func (c Code) meaning() (m meaning, named bool) {
	for at := c; ; {
		if m, ok := codes[at]; ok {
			return m, true
		}
		dot := strings.LastIndexByte(string(at), '.')
		if dot < 0 {
			return families[at], false
		}
		at = at[:dot]
	}
}

type meaning struct {
	class Class
	hint  string
}

var families = map[Code]meaning{
	Validation:    {ClassTerminal, "fix the input"},
	Auth:          {ClassTerminal, "re-authenticate, or ask for permission"},
	Conflict:      {ClassTerminal, "re-read the resource and decide"},
	RateLimit:     {ClassTransient, "wait, not less than Retry-After says"},
	Dependency:    {ClassTransient, "retry with the same key"},
	Transient:     {ClassTransient, "retry with the same key"},
	Provider:      {ClassTerminal, "read the provider's own documentation of this code"},
	Configuration: {ClassTerminal, "correct the configuration: no repetition helps before"},
	Caller:        {ClassTerminal, "call the same operation again when there is time for it"},
}

var codes = map[Code]meaning{
	KeyMissing: {ClassTerminal, "send an Idempotency-Key: the route requires one"},
	KeyMalformed: {
		ClassTerminal, "send one Idempotency-Key of 1 to 255 printable ASCII characters, in the route's format",
	},
	PayloadMismatch: {ClassTerminal, "the key was used for another payload: use a new operation"},
	InFlight:        {ClassTransient, "wait: the first request with this key is still running"},
	KeyExpired:      {ClassTerminal, "the server may have forgotten the key: read back before resending"},
	ResultNotStored: {ClassTerminal, "applied, but its response was not kept: fetch the resource"},
	OutcomeUnknown:  {ClassTerminal, "read back the first request's result: the server will not run this key again"},
	Duplicate:       {ClassSuccess, "already applied: use the existing result"},

	RateLimited: {ClassTransient, "wait, not less than Retry-After says"},
	Timeout:     {ClassTransient, "retry with the same key: the outcome is unknown until a response arrives"},
	Unavailable: {ClassTransient, "retry with the same key"},

	Unauthenticated: {ClassTerminal, "re-authenticate"},
	Forbidden:       {ClassTerminal, "ask for permission"},
	ProxyAuth:       {ClassTerminal, "authenticate to the proxy"},

	BadRequest:       {ClassTerminal, "fix the input"},
	NotFound:         {ClassTerminal, "fix the path, or the name of the resource"},
	MethodNotAllowed: {ClassTerminal, "use a method that the resource allows"},
	Gone:             {ClassTerminal, "stop using this resource: it was removed"},
	LengthRequired:   {ClassTerminal, "send a Content-Length"},
	ContentTooLarge:  {ClassTerminal, "send a smaller body"},
	URITooLong:       {ClassTerminal, "send a shorter URL"},
	MediaType:        {ClassTerminal, "send a media type that the resource accepts"},
	Unprocessable:    {ClassTerminal, "fix the input: it was understood, and it is wrong"},

	InvalidRequest:    {ClassTerminal, "fix the request: it was not sent"},
	InvalidOperation:  {ClassTerminal, "fix the operation's name or key: nothing was sent"},
	BodyNotReplayable: {ClassTerminal, "give a body that can be read again, such as bytes or one with GetBody"},
	ClientClosed:      {ClassTerminal, "use a client that is not closed"},

	ConflictState:   {ClassTerminal, "re-read the resource and decide"},
	Precondition:    {ClassTerminal, "re-read the resource: it changed since it was read"},
	PreconditionReq: {ClassTerminal, "read the resource and send If-Match"},

	Internal:      {ClassTransient, "retry with the same key"},
	Reset:         {ClassTransient, "retry with the same key: the connection was reset"},
	EOF:           {ClassTransient, "retry with the same key: the connection was closed before a response"},
	Truncated:     {ClassTransient, "retry with the same key: the response was cut off"},
	GoAway:        {ClassTransient, "retry with the same key: the server is closing its connections"},
	RefusedStream: {ClassTransient, "retry: the server did no work"},
	Connection:    {ClassTransient, "retry with the same key: the connection failed"},
	TooEarly:      {ClassTransient, "retry: the server would not act on early data"},

	NotImplemented:   {ClassTerminal, "use what this server implements"},
	HTTPVersion:      {ClassTerminal, "use an HTTP version that this server speaks"},
	TLS:              {ClassTerminal, "check the server's certificate, the trusted roots and the scheme"},
	BadURL:           {ClassTerminal, "correct the URL"},
	UnknownHost:      {ClassTerminal, "correct the host name, or its DNS record"},
	TooManyRedirects: {ClassTerminal, "use the URL that the redirects should end at"},

	RedirectNotFollowed: {ClassTerminal, "follow the Location, or correct the URL"},

	CallerCanceled: {ClassTerminal, "the caller canceled: call the same operation again to go on"},
	CallerDeadline: {ClassTerminal, "the caller's time ran out: call the same operation again, with more of it"},
}
