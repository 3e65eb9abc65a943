package targetfile

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/conformance"
)

func TestYAMLAndJSONSayTheSame(t *testing.T) {
	const asYAML = `
base_url: http://localhost:8080
operation: &op
  method: POST
  path: /orders
  headers: {X-Number: "1", X-Date: 2024-05-06}
  body:                     # sent as JSON, in this order
    z: 1.50
    a: [true, null, "<&>", 12345678901234567890]
key: {required: false}
slow: {headers: {X-Slow: 400ms}, takes: 400ms}
second_operation: *op
`
	const asJSON = `{"base_url": "http://localhost:8080",
	"operation": {"method": "POST", "path": "/orders", "headers": {"X-Number": "1", "X-Date": "2024-05-06"},
		"body": {"z": 1.50, "a": [true, null, "<&>", 12345678901234567890]}},
	"key": {"required": false}, "slow": {"headers": {"X-Slow": "400ms"}, "takes": "400ms"},
	"second_operation": {"method": "POST", "path": "/orders", "headers": {"X-Number": "1", "X-Date": "2024-05-06"},
		"body": {"z": 1.50, "a": [true, null, "<&>", 12345678901234567890]}}}`
	one, err := Parse("target.yaml", []byte(asYAML))
	require.NoError(t, err)
	two, err := Parse("target.json", []byte(asJSON))
	require.NoError(t, err)
	three, err := Parse("-", []byte(asJSON)) // JSON is YAML
	require.NoError(t, err)
	require.Equal(t, two, one)
	require.Equal(t, two, three)
	require.Equal(t, conformance.Body(`{"z":1.50,"a":[true,null,"<&>",12345678901234567890]}`), one.Operation.Body)
	require.Equal(t, conformance.Duration(400*time.Millisecond), one.Slow.Takes)
	require.False(t, *one.Key.Required)
}

func TestWrongFilesAreRefused(t *testing.T) {
	const good = "base_url: http://localhost\noperation: {method: POST, path: /x}\n"
	for name, c := range map[string]struct{ text, want string }{
		"empty":             {"", "the target file is empty"},
		"only a comment":    {"# nothing\n", "the target file is empty"},
		"no YAML":           {"a: [", "line 1"},
		"two documents":     {good + "---\n" + good, "more than one YAML document"},
		"a member twice":    {good + "base_url: http://other\n", `line 3: the member "base_url" is there twice`},
		"an unknown member": {good + "efects: {}\n", `line 3: there is no member "efects" (did you mean effects?)`},
		"an unknown deep one": {good + "key: {requird: true}\n",
			`line 3: key: there is no member "requird" (did you mean required?)`},
		"a name that is none": {good + "? [a]\n: b\n", "line 3: the name of a member must be a text"},
		"a foreign number":    {good + "key: {max_length: 0x40}\n", `line 3: "0x40" is no number of JSON`},
		"not a number":        {good + "key: {max_length: .nan}\n", `".nan" is no number of JSON`},
		"a foreign tag":       {good + "name: !!binary aGk=\n", "line 3: the tag !!binary means nothing here"},
		"no object":           {"- 1\n", "line 1: must be an object"},
		"a wrong type":        {good + "key: {required: maybe}\n", "line 3: key.required: must be true or false"},
		"a number":            {good + "name: 5\n", "line 3: name: must be a text: put it in quotation marks"},
		"a text":              {good + "key:\n  max_length: long\n", "line 4: key.max_length: must be a whole number"},
		"a list":              {good + "key: [1]\n", "line 3: key: must be an object"},
		"no list":             {good + "secret_headers: X\n", "line 3: secret_headers: must be a list"},
		"a header": {good + "principals: [{headers: {X-N: 1}}]\n",
			"line 3: principals.0.headers.X-N: must be a text"},
		"no duration":   {good + "slow:\n  takes: soon\n", `line 4: slow.takes: "soon" is no duration`},
		"a wrong value": {good + "slow:\n  takes: 1ms\n", "line 4: slow.takes: 1ms must be 50ms or more"},
		"an unset variable": {good + "name: ${REDO_TEST_UNSET}\n",
			"line 3: the environment has no variable REDO_TEST_UNSET"},
		"two at once":       {good + "efects: {}\nname: 5\n", "line 4: name"},
		"too deep":          {"a: " + strings.Repeat("[", 200) + strings.Repeat("]", 200), "nested too deeply"},
		"aliases that grow": {bomb(), "the target is too large"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("target.yaml", []byte(c.text))
			require.ErrorIs(t, err, conformance.ErrConfig)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// bomb is a small file of more than 10^12 texts.
func bomb() string {
	text := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'n'; c++ {
		one := "*" + string(c-1) + ","
		text += string(c) + ": &" + string(c) + " [" + strings.Repeat(one, 9) + "*" + string(c-1) + "]\n"
	}
	return text
}

func TestExampleIsRead(t *testing.T) {
	target, err := Parse("example.yaml", []byte(Example))
	require.NoError(t, err)
	require.Equal(t, "/orders", target.Operation.Path)
}

// The comments of the example are valid members too. Only the ways to count exclude each other.
func TestExampleIsRightInItsComments(t *testing.T) {
	member := regexp.MustCompile(`(?m)^( *)# ([a-z_]+:( |$)| +- [a-z_]+:| +[a-z_]+: )`)
	whole := member.ReplaceAllString(Example, "$1$2")
	require.NotContains(t, whole, "# principals:")
	_, err := Parse("example.yaml", []byte(whole))
	require.EqualError(t, err, "conformance: wrong configuration: line 35: effects: there must be one of url, command "+
		"and response_id")

	for _, name := range memberNames(reflect.TypeFor[conformance.Target]()) {
		require.Regexp(t, `[ {]`+name+`:|^`+name+`:|\n`+name+`:`, whole, "the example does not show %s", name)
	}
}

// memberNames returns the names of a struct's members in JSON, and of those within.
func memberNames(of reflect.Type) []string {
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice:
		return memberNames(of.Elem())
	case reflect.Struct:
	default:
		return nil
	}
	var names []string
	for i := range of.NumField() {
		f := of.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if name != "" {
			names = append(names, name)
		}
		names = append(names, memberNames(f.Type)...)
	}
	return names
}

func TestFormatIsReadBack(t *testing.T) {
	target, err := Parse("example.yaml", []byte(Example))
	require.NoError(t, err)
	text, err := Format(target)
	require.NoError(t, err)
	again, err := Parse("again.yaml", text)
	require.NoError(t, err)
	require.Equal(t, target, again)
}

// JSON may hold characters that YAML must not, in the names of members too.
func TestCharactersThatYAMLForbidsAreEscaped(t *testing.T) {
	want := map[string]string{"a\x7f": "b\u0080\u0085\u2028\ufeff\uffff\U0010ffff é\x00", "by": "{{case}}"}
	body, err := json.Marshal(want)
	require.NoError(t, err)
	target, err := Parse("example.yaml", []byte(Example))
	require.NoError(t, err)
	target.Operation.Body = conformance.Body(body)
	text, err := Format(target)
	require.NoError(t, err)
	again, err := Parse("again.yaml", text)
	require.NoError(t, err)
	var got map[string]string
	require.NoError(t, json.Unmarshal([]byte(again.Operation.Body), &got))
	require.Equal(t, want, got)
}

func TestVariablesOfTheEnvironmentAreRead(t *testing.T) {
	t.Setenv("REDO_TEST_TOKEN", `"se"cret\"`)
	t.Setenv("REDO_TEST_TIME", "3s")
	const text = "{\"base_url\": \"http://h\", \"timeout\": \"${REDO_TEST_TIME}\", \"operation\": {\"method\": " +
		"\"POST\", \"path\": \"/x\",\n" +
		"\"headers\": {\"Authorization\": \"Bearer ${REDO_TEST_TOKEN}\", \"X-Text\": \"$${REDO_TEST_TOKEN} " +
		"$REDO_TEST_TOKEN\"}}}"
	for _, name := range []string{"t.yaml", "t.json"} {
		target, err := Parse(name, []byte(text))
		require.NoError(t, err)
		require.Equal(t, map[string]string{"Authorization": `Bearer "se"cret\"`,
			"X-Text": "${REDO_TEST_TOKEN} $REDO_TEST_TOKEN"},
			target.Operation.Headers)
		require.Equal(t, map[string]string{"REDO_TEST_TOKEN": `"se"cret\"`, "REDO_TEST_TIME": "3s"}, target.Secrets)
	}
	_, err := Parse("t.json", []byte("{\n\"base_url\": \"\\/\",\n \"efects\": 1}")) // its escape is no YAML
	require.ErrorContains(t, err, `unknown field "efects"`)
}

func FuzzParse(f *testing.F) {
	f.Add("base_url: http://localhost\noperation: {method: POST, path: /x}\n")
	f.Add(Example)
	f.Add("a: &a [*a]")
	f.Fuzz(func(t *testing.T, text string) {
		target, err := Parse("target.yaml", []byte(text))
		if err != nil {
			return
		}
		out, err := Format(target)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse("target.yaml", out); err != nil {
			t.Errorf("%q is written as %q, which is not read: %v", text, out, err)
		}
	})
}
