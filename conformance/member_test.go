package conformance

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKeyIsPutIntoTheBody(t *testing.T) {
	for _, c := range []struct{ doc, path, want, wrong string }{
		{doc: `not JSON`, path: "", want: `not JSON`},
		{doc: `{"a":1.0}`, path: "key", want: `{"a":1.0,"key":"k"}`},
		{doc: `{"key":"old","a":9007199254740993}`, path: "key", want: `{"a":9007199254740993,"key":"k"}`},
		{doc: `{"params":{"arguments":{}}}`, path: "params.arguments.key",
			want: `{"params":{"arguments":{"key":"k"}}}`},
		{doc: `not JSON`, path: "key", wrong: "must be a JSON object"},
		{doc: `null`, path: "key", wrong: "must be a JSON object"},
		{doc: `{"params":[]}`, path: "params.key", wrong: "params: the profile has the key in the body"},
		{doc: `{}`, path: "params.key", wrong: "params: the profile has the key in the body"},
	} {
		got, err := withMember([]byte(c.doc), c.path, "k")
		if c.wrong != "" {
			require.ErrorContains(t, err, c.wrong, c.doc)
			continue
		}
		require.NoError(t, err, c.doc)
		require.Equal(t, c.want, string(got))
	}
}

func TestEnvelopeIsNoPartOfAResult(t *testing.T) {
	adcp, _ := profileNamed("adcp")
	first := &answer{status: 200, body: []byte(`{"id":1,"replayed":false,"timestamp":"now"}`)}
	again := &answer{status: 200, body: []byte(`{"replayed":true,"id":1,"timestamp":"later"}`)}
	other := &answer{status: 200, body: []byte(`{"id":2,"replayed":true}`)}
	text := &answer{status: 200, body: []byte(`not JSON`)}
	for _, a := range []*answer{first, again, other, text} {
		adcp.read(a)
		require.True(t, a.ok())
	}
	require.True(t, same(first, again))
	require.False(t, same(first, other))
	require.Equal(t, "not JSON", string(text.content()))
	require.True(t, adcp.marked(again))
	require.False(t, adcp.marked(first))
}

func TestErrorWithTheStatusOfASuccessIsARefusal(t *testing.T) {
	adcp, _ := profileNamed("adcp")
	conflict := &answer{status: 200,
		body: []byte(`{"structuredContent":{"adcp_error":{"code":"IDEMPOTENCY_CONFLICT"}}}`)}
	broke := &answer{status: 200, body: []byte(`{"adcp_error":{"code":"BUDGET_TOO_LOW"}}`)}
	for _, a := range []*answer{conflict, broke} {
		adcp.read(a)
		require.True(t, a.refused())
		require.False(t, a.ok())
		require.False(t, adcp.maybeRunning(a))
	}
	require.True(t, adcp.mismatch(conflict))
	require.False(t, adcp.mismatch(broke), "another error is no mismatch")
	acp, _ := profileNamed("acp")
	session := &answer{status: 201, body: []byte(`{"code":"summer"}`)}
	acp.read(session)
	require.True(t, session.ok(), "a success may have a member of that name")
}

func TestProfileThatCannotBeIsRefused(t *testing.T) {
	sound := Profile{Mismatch: []int{409}, MissingKey: []int{400}, MalformedKey: []int{400}, InFlight: []int{409}}
	require.NoError(t, sound.validate())
	for want, change := range map[string]func(p *Profile){
		`key_form: "ulid" can be "uuid"`:      func(p *Profile) { p.KeyForm = "ulid" },
		`first_sent: "a b" is no header name`: func(p *Profile) { p.FirstSent = "a b" },
		"the header Content-Length is":        func(p *Profile) { p.FirstSent = "Content-Length" },
		"header: the header Host has another": func(p *Profile) { p.Header = "Host" },
		"markers.0: \"\" is neither a header": func(p *Profile) { p.Markers = []Marker{{Value: "true"}} },
		"mismatch: there is no status":        func(p *Profile) { p.Mismatch = nil },
	} {
		p := sound
		change(&p)
		require.ErrorContains(t, p.validate(), want)
	}
	free := sound
	free.AnyPayload, free.Mismatch = true, nil
	free.KeyForm, free.FirstSent, free.Markers = UUIDv7, "X-Sent", []Marker{{Member: "replayed"}}
	require.NoError(t, free.validate())

	target := peerTarget("http://127.0.0.1")
	target.Profile, target.Operation.Body = "adcp", "a=1"
	require.ErrorContains(t, target.Validate(), "the key in the body, which must be a JSON object")
}
