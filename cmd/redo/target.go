package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/redo-go/redo/cmd/redo/internal/nearest"
	"github.com/redo-go/redo/cmd/redo/internal/targetfile"
	"github.com/redo-go/redo/conformance"
)

// targetFlags describes a whole target if TARGET is a URL. If TARGET is a file, targetFlags changes parts of it.
type targetFlags struct {
	profile, baseURL, keyHeader        string
	caFile, certFile, keyFile          string
	insecure                           bool
	headers                            []string
	method, body, effects, effectsPath string
	required                           bool
}

// onlyWithURL lists the flags that are valid only with a URL. A target file describes these settings better.
var onlyWithURL = []string{"method", "body", "effects", "effects-path", "key-required"}

func (t *targetFlags) flags(f *pflag.FlagSet) {
	f.StringVar(&t.profile, "profile", "", "judge by the `profile` "+strings.Join(conformance.ProfileNames(), ", ")+
		" (default the file's, or redo; with a URL ietf)")
	f.StringVar(&t.baseURL, "base-url", "", "the server's `URL` in place of the file's")
	f.StringArrayVar(&t.headers, "header", nil,
		"send the header `'Name: value'` with each request, and to a counter whose URL is a path; its value is masked "+
			"in reports (repeatable)")
	f.StringVar(&t.keyHeader, "key-header", "", "the key's header `name` (default the file's, or Idempotency-Key)")
	f.StringVar(&t.caFile, "ca-file", "", "PEM `file` of certificates to trust in place of the system's")
	f.StringVar(&t.certFile, "cert-file", "", "PEM `file` of this client's certificate")
	f.StringVar(&t.keyFile, "key-file", "", "PEM `file` of that certificate's private key")
	f.BoolVar(&t.insecure, "insecure", false, "accept every certificate of the server")
	f.StringVar(&t.method, "method", http.MethodPost, "with a URL: the operation's `method`")
	f.StringVar(&t.body, "body", "",
		"with a URL: the operation's `body`, a template; @ and a file name reads it from there")
	f.StringVar(&t.effects, "effects", "",
		"with a URL: the `URL`, or its path, of a GET that counts effects, a template")
	f.StringVar(&t.effectsPath, "effects-path", "",
		"with a URL: the `path` to the count in that JSON, such as data.count")
	f.BoolVar(&t.required, "key-required", false, "with a URL: whether it refuses requests without a key (default "+
		"not tried)")
}

// read returns the target that the argument and the flags describe.
func (t *targetFlags) read(name string, stdin io.Reader, given func(flag string) bool) (conformance.Target, error) {
	var target conformance.Target
	var err error
	if isURL(name) {
		target, err = t.fromURL(name, given)
	} else if otherURL.MatchString(name) {
		scheme, _, _ := strings.Cut(name, "://") // the rest is not shown, because it may hold a password
		return target, fmt.Errorf("the URL begins with %s://: it must be an http or https URL", scheme)
	} else {
		for _, flag := range onlyWithURL {
			if given(flag) {
				return target, fmt.Errorf("--%s goes with a URL: put it into the target file", flag)
			}
		}
		target, err = readTarget(name, stdin)
	}
	if err != nil {
		return target, err
	}
	if t.profile != "" {
		if names := conformance.ProfileNames(); !slices.Contains(names, t.profile) {
			return target, fmt.Errorf("--profile: there is no profile %q, there are %s%s", t.profile,
				strings.Join(names, ", "), nearest.DidYouMean(t.profile, names))
		}
		target.Profile, target.CustomProfile = t.profile, nil
	}
	if t.baseURL != "" {
		target.BaseURL = t.baseURL
	}
	if t.keyHeader != "" {
		target.Key.Header = t.keyHeader
	}
	if t.caFile != "" {
		target.CAFile = t.caFile
	}
	if t.certFile != "" || t.keyFile != "" {
		target.CertFile, target.KeyFile = t.certFile, t.keyFile
	}
	target.Insecure = target.Insecure || t.insecure
	if err := t.addHeaders(&target); err != nil {
		return target, err
	}
	return target, target.Validate()
}

// isURL reports whether an argument is an http or https URL, whose scheme has no case (RFC 3986 section 3.1).
func isURL(s string) bool {
	scheme, _, found := strings.Cut(s, "://")
	return found && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}

// otherURL matches an argument that is a URL.
var otherURL = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://`)

// hostAndPort matches the start of a URL without a scheme.
var hostAndPort = regexp.MustCompile(`^[A-Za-z0-9.-]+:[0-9]+(/|$)|^\[[0-9A-Fa-f:.]+\]`)

// readInput reads a file. The name "-" means the standard input.
func readInput(name string, stdin io.Reader) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(name)
}

func readTarget(name string, stdin io.Reader) (conformance.Target, error) {
	data, err := readInput(name, stdin)
	if errors.Is(err, fs.ErrNotExist) && hostAndPort.MatchString(name) {
		return conformance.Target{}, fmt.Errorf("there is no file %q; for a URL write http://%s", name, name)
	}
	if err != nil {
		return conformance.Target{}, fmt.Errorf("read the target: %w", err)
	}
	target, err := targetfile.Parse(name, data)
	if err != nil {
		return target, fmt.Errorf("%s: %w", name, err)
	}
	return target, nil
}

// fromURL returns a target of one operation.
func (t *targetFlags) fromURL(raw string, given func(flag string) bool) (conformance.Target, error) {
	var target conformance.Target
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return target, errors.New("the URL can't be read") // not shown, because it may hold a password
	case u.Host == "":
		return target, errors.New("the URL has no host: write it as http://localhost:8080/orders")
	}
	if u.User != nil {
		return target, errors.New("the URL must not hold credentials: send them with --header")
	}
	if t.baseURL != "" {
		return target, errors.New("--base-url goes with a target file")
	}
	target.BaseURL = u.Scheme + "://" + u.Host
	// The path is kept as typed, because escaping would remove the braces of a template.
	_, path, _ := strings.Cut(raw, "://")
	path = path[max(0, strings.IndexAny(path+"/", "/?#")):]
	path, _, _ = strings.Cut(path, "#")
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	// An unknown server follows the draft, if anything. The rules of redo apply if the server sends the headers of
	// redo.
	target.Profile = "ietf"
	target.Operation = conformance.Operation{Method: t.method, Path: path}
	body, err := t.readBody()
	if err != nil {
		return target, err
	}
	target.Operation.Body = conformance.Body(body)
	if looksLikeJSON(body) {
		target.Operation.Headers = map[string]string{"Content-Type": "application/json"}
	}
	if t.effectsPath != "" && t.effects == "" {
		return target, errors.New("--effects-path needs --effects")
	}
	if t.effects != "" {
		target.Effects = &conformance.Effects{URL: t.effects, Path: t.effectsPath}
	}
	if given("key-required") {
		target.Key.Required = &t.required
	}
	return target, nil
}

func (t *targetFlags) readBody() (string, error) {
	name, isFile := strings.CutPrefix(t.body, "@")
	if !isFile {
		return t.body, nil
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("--body: %w", err)
	}
	return string(data), nil
}

// looksLikeJSON reports whether the template produces a JSON object or array.
func looksLikeJSON(body string) bool {
	filled := strings.NewReplacer("{{number}}", "1", "{{payload}}", "p", "{{case}}", "c", "{{run}}", "r",
		"{{uuid}}", "u", "{{now}}", "n").Replace(body)
	trimmed := strings.TrimSpace(filled)
	return trimmed != "" && strings.ContainsRune("{[", rune(trimmed[0])) && json.Valid([]byte(filled))
}

// plainHeaders lists the headers that never need masking.
var plainHeaders = []string{"Accept", "Accept-Language", "Content-Type", "Content-Language", "User-Agent", "Prefer"}

func (t *targetFlags) addHeaders(target *conformance.Target) error {
	headers, err := parseHeaders(t.headers)
	if err != nil {
		return err
	}
	for name, value := range headers {
		if target.Operation.Headers == nil {
			target.Operation.Headers = map[string]string{}
		}
		for other := range target.Operation.Headers {
			if strings.EqualFold(other, name) {
				delete(target.Operation.Headers, other)
			}
		}
		target.Operation.Headers[name] = value
		if !slices.Contains(plainHeaders, http.CanonicalHeaderKey(name)) {
			target.SecretHeaders = append(target.SecretHeaders, name)
			addToCounter(target.Effects, name, value)
		}
	}
	return nil
}

// addToCounter adds a header to the request that counts effects. It does nothing if the counter has such a header, or
// is not a path of the target: another server must not get the value.
func addToCounter(e *conformance.Effects, name, value string) {
	if e == nil || !strings.HasPrefix(e.URL, "/") {
		return
	}
	for other := range e.Headers {
		if strings.EqualFold(other, name) {
			return
		}
	}
	if e.Headers == nil {
		e.Headers = map[string]string{}
	}
	e.Headers[name] = value
}

// parseHeaders parses the --header flags. Its errors contain no values, because a value may be a secret.
func parseHeaders(lines []string) (map[string]string, error) {
	headers := map[string]string{}
	for i, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		name = strings.TrimSpace(name)
		if !ok || name == "" {
			return nil, fmt.Errorf("--header %d is not of the form 'Name: value'", i+1)
		}
		headers[name] = strings.TrimSpace(value)
	}
	return headers, nil
}
