package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestCanonicalForm(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"white space is dropped", " {\t\"a\" :\r\n [ 1 , true , null ] } \n", `{"a":[1,true,null]}`},
		{"white space in strings stays", `" a  b "`, `" a  b "`},
		{"members are ordered", `{"b":1,"a":2,"aa":3,"":4}`, `{"":4,"a":2,"aa":3,"b":1}`},
		{
			"inner members are ordered too", `{"z":{"b":{"d":1,"c":2},"a":3},"y":[{"f":1,"e":2}]}`,
			`{"y":[{"e":2,"f":1}],"z":{"a":3,"b":{"c":2,"d":1}}}`,
		},
		{"elements keep their order", `[3,1,2]`, `[3,1,2]`},
		{"case counts", `{"a":1,"B":2}`, `{"B":2,"a":1}`},
		{
			"numbers keep their text", `[9007199254740993,1.0,1,-0,1e2,1E+2,0.10]`,
			`[9007199254740993,1.0,1,-0,1e2,1E+2,0.10]`,
		},
		{"escapes of plain characters are undone", `"\u0041\/\u00e9\u20ac"`, `"A/é€"`},
		{
			"escapes have one form", `"\u0022\u005C\u0008\u000c\u000A\u000D\u0009\u001F\u0000"`,
			`"\"\\\b\f\n\r\t\u001f\u0000"`,
		},
		{"DEL and the replacement character are plain", `"\u007f\ufffd"`, "\"\u007f\ufffd\""},
		{"surrogate pairs are joined", `"\ud83d\uDE00"`, `"😀"`},
		{"an escaped backslash begins no surrogate", `"\\ud83d\n\\\\ude00"`, `"\\ud83d\n\\\\ude00"`},
		{"a surrogate pair between others", `"\ud83d\ude00\ud83d\ude01"`, `"😀😁"`},
		{"escaped names are ordered by their meaning", `{"b":1,"\u0061":2}`, `{"a":2,"b":1}`},
		{"a name with a quote", `{"a\"":1,"a":2,"a!":3}`, `{"a":2,"a!":3,"a\"":1}`},
		{"empty containers", `[ { } , [ ] ]`, `[{},[]]`},
		{"a scalar", ` false `, `false`},
		// RFC 8785, section 3.2.3: the example of the order of members.
		{"members are ordered by UTF-16",
			`{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One",` +
				`"\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}`,
			`{"\r":"Carriage Return","1":"One","` + "\u0080" +
				`":"Control","ö":"Latin Small Letter O With Diaeresis","€":"Euro Sign",` +
				`"😀":"Emoji: Grinning Face","` + "\ufb33" + `":"Hebrew Letter Dalet With Dagesh"}`},
		// RFC 8785, section 3.2.2: the example of strings and literals.
		{"strings and literals",
			`{"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}`,
			`{"literals":[null,true,false],"string":"€$\u000f\nA'B\"\\\\\"/"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := canonicalForm([]byte(c.in))
			require.NoError(t, err)
			require.Equal(t, c.want, string(got))
			again, err := canonicalForm(got)
			require.NoError(t, err)
			require.Equal(t, c.want, string(again), "the form of the form is the form")
		})
	}
}

func TestCanonicalFormRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		in   string
		kind error
	}{
		{"white space alone", " \n", errSyntax},
		{"text", `hello`, errSyntax},
		{"a form", `amount=10&currency=eur`, errSyntax},
		{"data after the value", `{} {}`, errSyntax},
		{"a byte order mark", "\xef\xbb\xbf{}", errSyntax},
		{"a comma at the end of an array", `[1,]`, errSyntax},
		{"a comma at the end of an object", `{"a":1,}`, errSyntax},
		{"a missing colon", `{"a" 1}`, errSyntax},
		{"a name without quotes", `{a:1}`, errSyntax},
		{"a missing bracket", `[1`, errSyntax},
		{"a missing brace", `{"a":1`, errSyntax},
		{"the wrong bracket", `[1}`, errSyntax},
		{"a missing quote", `"a`, errSyntax},
		{"a backslash at the end", `"a\`, errSyntax},
		{"an unknown escape", `"\x41"`, errSyntax},
		{"a short escape", `"\u12"`, errSyntax},
		{"an escape that is not hexadecimal", `"\u12g4"`, errSyntax},
		{"a short second escape", `"\ud83d\u1"`, errSyntax},
		{"a line break in a string", "\"a\nb\"", errSyntax},
		{"a zero byte", "\x00", errSyntax},
		{"a zero byte after the value", "1\x00", errSyntax},
		{"a cut literal", `tru`, errSyntax},
		{"a long literal", `trues`, errSyntax},
		{"a leading zero", `01`, errSyntax},
		{"a plus", `+1`, errSyntax},
		{"a minus alone", `-`, errSyntax},
		{"a bare fraction", `.5`, errSyntax},
		{"no fraction", `1.`, errSyntax},
		{"no exponent", `1e+`, errSyntax},
		{"NaN", `NaN`, errSyntax},
		{"invalid UTF-8", "\"\xff\"", errEncoding},
		{"an overlong encoding", "\"\xc0\xaf\"", errEncoding},
		{"a surrogate in UTF-8", "\"\xed\xa0\x80\"", errEncoding},
		{"cut UTF-8", "\"\xe2\x82", errEncoding},
		{"invalid UTF-8 in a name", "{\"\xff\":1}", errEncoding},
		{"a high surrogate alone", `"\ud83d"`, errSyntax},
		{"a low surrogate alone", `"\ude00"`, errSyntax},
		{"two high surrogates", `"\ud83d\ud83d"`, errSyntax},
		{"surrogates in the wrong order", `"\ude00\ud83d"`, errSyntax},
		{"surrogates around a backslash", `"\ud83d\\\ude00"`, errSyntax},
		{"a high surrogate before another escape", `"\ud83d\n"`, errSyntax},
		{"a duplicate member", `{"a":1,"b":2,"a":1}`, errDuplicate},
		{"a duplicate member in order", `{"a":1,"a":1}`, errDuplicate},
		{"a duplicate member, escaped once", `{"a":1,"\u0061":2}`, errDuplicate},
		{"a duplicate member deep inside", `[{"x":{"a":1,"a":2}}]`, errDuplicate},
		{"one level too many", strings.Repeat("[", 129) + strings.Repeat("]", 129), errDepth},
		{"very many levels", strings.Repeat(`{"a":`, 1<<20), errDepth},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := CanonicalJSON("POST", "/", "", []byte(c.in))
			require.ErrorIs(t, err, ErrNotJSON)
			require.ErrorIs(t, err, c.kind)
			require.True(t, f.IsZero())
		})
	}
}

func TestDuplicateMemberIsNamed(t *testing.T) {
	_, err := CanonicalJSON("POST", "/", "", []byte(`{"amount":1,"note":"secret","amount":2}`))
	require.EqualError(t, err, `store: body has no canonical JSON form: duplicate member: "amount" at byte 28`)

	name := strings.Repeat("é", 100)
	_, err = CanonicalJSON("POST", "/", "", []byte(`{"`+name+`":1,"`+name+`":2}`))
	require.ErrorContains(t, err, `"`+strings.Repeat("é", 64)+`" at`, "a long name is cut")
}

func TestErrorsDoNotQuoteTheBody(t *testing.T) {
	for _, body := range []string{`hunter2`, `{"password":"hunter2"`, `{"password":"hunter2\x"}`, `["hunter2" 1]`} {
		_, err := CanonicalJSON("POST", "/", "", []byte(body))
		require.ErrorIs(t, err, ErrNotJSON)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func TestDepthCap(t *testing.T) {
	deep := strings.Repeat("[", MaxJSONDepth) + strings.Repeat("]", MaxJSONDepth)
	got, err := canonicalForm([]byte(deep))
	require.NoError(t, err)
	require.Equal(t, deep, string(got))

	wide := "[" + strings.Repeat("{},", 1000) + "[]]"
	_, err = canonicalForm([]byte(wide))
	require.NoError(t, err, "depth is not the number of containers")
}

func TestMarshalledAgainIsTheSame(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		v := randomValue(r, 4)
		compact, err := json.Marshal(v)
		require.NoError(t, err)
		indented, err := json.MarshalIndent(v, " ", "\t")
		require.NoError(t, err)
		var plain bytes.Buffer
		enc := json.NewEncoder(&plain)
		enc.SetEscapeHTML(false)
		require.NoError(t, enc.Encode(v))

		want, err := CanonicalJSON("POST", "/x", "", compact)
		require.NoError(t, err)
		for _, other := range [][]byte{indented, plain.Bytes(), shuffled(r, v)} {
			got, err := CanonicalJSON("POST", "/x", "", other)
			require.NoError(t, err)
			require.Equal(t, want, got, "%s\nand\n%s", compact, other)
		}
	}
}

func randomValue(r *rand.Rand, depth int) any {
	switch n := r.IntN(8); {
	case n < 3 && depth > 0:
		object := map[string]any{}
		for range r.IntN(6) {
			object[randomText(r)] = randomValue(r, depth-1)
		}
		return object
	case n == 3 && depth > 0:
		array := []any{}
		for range r.IntN(4) {
			array = append(array, randomValue(r, depth-1))
		}
		return array
	case n == 4:
		return r.IntN(2) == 0
	case n == 5:
		return int64(r.Uint64() >> r.IntN(64) & math.MaxInt64)
	default:
		return randomText(r)
	}
}

func randomText(r *rand.Rand) string {
	alphabet := []rune("ab\"\\/<>&\n\x01\u2028é\ue000\uffff😀")
	text := make([]rune, r.IntN(5))
	for i := range text {
		text[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(text)
}

// shuffled marshals with members in any order.
func shuffled(r *rand.Rand, v any) []byte {
	switch v := v.(type) {
	case map[string]any:
		var parts [][]byte
		for name, value := range v {
			parts = append(parts, slices.Concat(shuffled(r, name), []byte(" : "), shuffled(r, value)))
		}
		r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		return slices.Concat([]byte("{"), bytes.Join(parts, []byte(" ,")), []byte("}"))
	case []any:
		var parts [][]byte
		for _, value := range v {
			parts = append(parts, shuffled(r, value))
		}
		return slices.Concat([]byte("["), bytes.Join(parts, []byte(",\n")), []byte("]"))
	default:
		b, _ := json.Marshal(v)
		return b
	}
}

func FuzzCanonicalJSON(f *testing.F) {
	for _, seed := range []string{
		`{"b":[1,2.50,"\u00e9\ud83d\ude00"],"a":{"y":null,"x":true}}`, `{"a":1,"a":2}`, `"\ud800"`, "\"\xff\"", `[`,
		` `, `1e5`, `{"a":"\ude00","a":1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := canonicalForm(body)
		if err != nil {
			// A body that the grammar allows may be refused only for the other reasons, or for a lone surrogate,
			// which package json replaces.
			if errors.Is(err, errSyntax) && json.Valid(body) && !replaces(t, body) {
				t.Fatalf("%q is valid JSON: %v", body, err)
			}
			return
		}
		if !json.Valid(body) {
			t.Fatalf("%q is not JSON, and its form is %q", body, got)
		}
		if len(got) > len(body) {
			t.Fatalf("the form %q of %q is longer", got, body)
		}
		again, err := canonicalForm(got)
		if err != nil || !bytes.Equal(again, got) {
			t.Fatalf("the form of %q is %q, %v", got, again, err)
		}
		if want, same := decode(t, body), decode(t, got); !bytes.Equal(want, same) {
			t.Fatalf("%q and its form mean %s and %s", body, want, same)
		}
	})
}

// replaces reports whether package json replaces a part of a string. It reads all of them: decode forgets the value of
// a name that is repeated.
func replaces(t *testing.T, body []byte) bool {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err == io.EOF {
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := token.(string); ok && strings.ContainsRune(s, utf8.RuneError) {
			return true
		}
	}
}

// decode returns the standard library's reading of the body, with numbers by their text.
func decode(t *testing.T, body []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
