package taxonomy

import (
	"maps"
	"slices"
	"strings"
)

// Hint returns what the caller can do about the code, in a few lower-case words without a full stop. A code
// that is not known has the hint of the closest known code above it, at last of its family; it is empty for a
// code of no known family and for the zero Code.
func (c Code) Hint() string {
	m, _ := c.meaning()
	return m.hint
}

// Transient reports whether the same request, under the same key, may succeed later. A code that is not known
// is judged by the closest known code above it, at last by its family; a code of no known family is not
// transient.
func (c Code) Transient() bool { return c.class() == ClassTransient }

// Codes returns all codes that have a meaning of their own, sorted, without the families. The slice is the
// caller's.
func Codes() []Code { return slices.Sorted(maps.Keys(codes)) }

func (c Code) class() Class {
	m, _ := c.meaning()
	return m.class
}

// known reports whether c is in the table, or refines a code that is: a detail below a known code never means
// anything else than the code.
func (c Code) known() bool {
	_, exact := c.meaning()
	return exact
}

// neverRetried holds for the codes that no directive and no status can make retryable.
func (c Code) neverRetried() bool {
	return c.In(PayloadMismatch) || c.In(KeyExpired) || c.In(OutcomeUnknown) || c.In(ResultNotStored)
}

// meaning finds the closest entry at or above c; named is false when only the family was found, or nothing.
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
	KeyMissing:      {ClassTerminal, "send an Idempotency-Key: the route requires one"},
	KeyMalformed:    {ClassTerminal, "send one Idempotency-Key of 1 to 255 printable ASCII characters, in the route's format"},
	PayloadMismatch: {ClassTerminal, "the key was used for another payload: use a new operation"},
	InFlight:        {ClassTransient, "wait: the first request with this key is still running"},
	KeyExpired:      {ClassTerminal, "the server may have forgotten the key: read back before resending"},
	ResultNotStored: {ClassTerminal, "applied, but its response was not kept: fetch the resource"},
	OutcomeUnknown:  {ClassTerminal, "read back what the first request with this key did: the server will not run it again"},
	Duplicate:       {ClassSuccess, "already applied: use the existing result"},

	RateLimited: {ClassTransient, "wait, not less than Retry-After says"},
	Timeout:     {ClassTransient, "retry with the same key: the outcome is unknown until answered"},
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
	EOF:           {ClassTransient, "retry with the same key: the connection was closed before an answer"},
	Truncated:     {ClassTransient, "retry with the same key: the answer was cut off"},
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

	CallerCanceled: {ClassTerminal, "the caller canceled: call the same operation again to go on"},
	CallerDeadline: {ClassTerminal, "the caller's time ran out: call the same operation again, with more of it"},
}
