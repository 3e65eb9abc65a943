package profile_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/profile"
)

func TestLearn(t *testing.T) {
	for name, c := range map[string]struct {
		document string
		want     time.Duration
	}{
		"Iceberg's configuration": {
			`{"defaults": {}, "overrides": {}, "idempotency-key-lifetime": "PT30M"}`, 30 * time.Minute},
		"a lifetime in the defaults": {`{"defaults": {"idempotency-key-lifetime": "PT24H"}}`, 24 * time.Hour},
		"a lifetime in the overrides, shorter": {
			`{"idempotency-key-lifetime": "PT2H", "overrides": {"idempotency-key-lifetime": "3600"}}`, time.Hour},
		"whole seconds as a number":       {`{"idempotency-key-lifetime": 90}`, 90 * time.Second},
		"a longer one than the profile's": {`{"idempotency-key-lifetime": "P30D"}`, 30 * 24 * time.Hour},
		"AdCP's capabilities": {
			`{"adcp": {"major_versions": [3], "idempotency": {"supported": true, "replay_ttl_seconds": 86400}}}`,
			24 * time.Hour},
		"capabilities in an MCP result": {
			`{"result": {"structuredContent": {"adcp": {"idempotency": {"replay_ttl_seconds": 7200}}}}}`,
			2 * time.Hour},
		"the shortest of several": {
			`{"a": {"idempotency": {"replay_ttl_seconds": 7200}}, "b": {"idempotency": {"replay_ttl_seconds": 3600}}}`,
			time.Hour},
		"one within another": {
			`{"idempotency": {"supported": true, "idempotency": {"replay_ttl_seconds": 3600}}}`, time.Hour},
		"32 objects deep": {nested(31, `{"idempotency":{"replay_ttl_seconds":60}}`), time.Minute},
		"null beside a value": {
			`{"idempotency-key-lifetime": null, "idempotency": {"supported": null, "replay_ttl_seconds": 3600}}`,
			time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			p, found, err := profile.Learn(profile.ACP, []byte(c.document))
			if err != nil || !found || p.Retention != c.want {
				t.Errorf("got retention %v, found %v, error %v; want %v", p.Retention, found, err, c.want)
			}
			if want := profile.ACP; p.Name != want.Name || p.NoKeys {
				t.Errorf("another part of the profile changed: %+v", p)
			}
		})
	}
}

func TestLearnThatKeysAreNotSupported(t *testing.T) {
	document := `{
		"adcp": {"idempotency": {"supported": false}}, "other": {"idempotency": {"replay_ttl_seconds": 3600}}
	}`
	p, found, err := profile.Learn(profile.AdCP, []byte(document))
	if err != nil || !found || !p.NoKeys || p.KeyInBody {
		t.Fatalf("got %+v, found %v, error %v", p, found, err)
	}
	client, err := redo.New(redo.WithProfile(p))
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
}

func nested(depth int, inner string) string {
	return strings.Repeat(`{"a":`, depth) + inner + strings.Repeat(`}`, depth)
}

// Documents that say nothing about keys are no errors, and change nothing.
func TestLearnNothing(t *testing.T) {
	for name, document := range map[string]string{
		"an empty object":            `{}`,
		"another document":           `{"issuer": "https://example.com", "scopes_supported": ["openid"]}`,
		"a TTL of another thing":     `{"webhooks": {"replay_ttl_seconds": 300}, "replay_ttl_seconds": 60}`,
		"a lifetime of another kind": `{"tokens": {"idempotency-key-lifetime": "PT1M"}}`,
		"idempotency as a word":      `{"idempotency": "supported"}`,
		"idempotency as a list":      `{"idempotency": [{"replay_ttl_seconds": 60}]}`,
		"supported, without a TTL":   `{"idempotency": {"supported": true}}`,
		"all null":                   `{"idempotency-key-lifetime": null, "idempotency": null, "defaults": null}`,
		"too deep":                   nested(32, `{"idempotency":{"replay_ttl_seconds":60}}`),
	} {
		p, found, err := profile.Learn(profile.UCP, []byte(document))
		if err != nil || found || !reflect.DeepEqual(p, profile.UCP) {
			t.Errorf("%s: found %v, error %v, retention %v", name, found, err, p.Retention)
		}
	}
}

func TestLearnRefusesBadDocuments(t *testing.T) {
	for name, c := range map[string]struct{ document, want string }{
		"empty":       {``, "no JSON object"},
		"null":        {`null`, "no JSON object"},
		"a list":      {`[{"idempotency-key-lifetime": "PT30M"}]`, "no JSON object"},
		"HTML":        {`<html>`, "no JSON object"},
		"cut off":     {`{"idempotency-key-lifetime": "PT30M"`, "no JSON object"},
		"too long":    {`{"a": "` + strings.Repeat("a", 1<<20) + `"}`, "at most 1048576"},
		"no duration": {`{"idempotency-key-lifetime": "half an hour"}`, `"half an hour"`},
		"zero":        {`{"idempotency": {"replay_ttl_seconds": 0}}`, `"0"`},
		"negative":    {`{"idempotency": {"replay_ttl_seconds": -3600}}`, `"-3600"`},
		"a fraction":  {`{"idempotency": {"replay_ttl_seconds": 0.5}}`, `"0.5"`},
		"an overflow": {
			`{"idempotency": {"replay_ttl_seconds": 9223372036854775807}}`, "9223372036854775807",
		},
		"an object":            {`{"idempotency-key-lifetime": {"seconds": 60}}`, "idempotency-key-lifetime"},
		"supported as a word":  {`{"idempotency": {"supported": "no"}}`, `supported is "no"`},
		"months":               {`{"idempotency-key-lifetime": "P1M"}`, `"P1M"`},
		"deep in the document": {`{"ucp": {"a": {"idempotency": {"replay_ttl_seconds": 0}}}}`, `"0"`},
		"a bad beside a good one": {
			`{"defaults": {"idempotency-key-lifetime": ""}, "idempotency-key-lifetime": 1}`, `""`,
		},
	} {
		p, found, err := profile.Learn(profile.UCP, []byte(c.document))
		switch {
		case err == nil:
			t.Errorf("%s: no error", name)
		case !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), `"ucp"`):
			t.Errorf("%s: the error is %q, it must name %q and the profile", name, err, c.want)
		case found || !reflect.DeepEqual(p, profile.UCP):
			t.Errorf("%s: the profile changed", name)
		}
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("%s: the error has %d bytes", name, len(err.Error()))
		}
	}
}

func FuzzLearn(f *testing.F) {
	f.Add([]byte(`{"idempotency-key-lifetime": "PT30M"}`))
	f.Add([]byte(`{"adcp": {"idempotency": {"supported": false, "replay_ttl_seconds": 86400}}}`))
	f.Add([]byte(`{"defaults": [], "overrides": {"idempotency-key-lifetime": 1}}`))
	f.Fuzz(func(t *testing.T, document []byte) {
		p, found, err := profile.Learn(profile.AdCP, document)
		if found && err != nil || p.Retention <= 0 || !found && (p.Retention != profile.AdCP.Retention || p.NoKeys) {
			t.Errorf("found %v, error %v, %+v", found, err, p)
		}
		if _, err := redo.New(redo.WithProfile(p)); err != nil {
			t.Error(err)
		}
	})
}
