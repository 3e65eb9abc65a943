package openapi

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/conformance"
)

// body returns a document whose operation has a JSON body of a schema.
func body(schema string) []byte {
	return []byte(post("/x", "", "      requestBody: {content: {application/json: {schema: "+schema+"}}}\n", ""))
}

func TestKeyInTheBodyIsDescribed(t *testing.T) {
	const schema = "{type: object, required: [idempotency_key, note], properties: {note: {type: string}, " +
		"idempotency_key: {type: string, maxLength: 45}}, example: {idempotency_key: k-1, note: n}}"
	target, notes, err := Target(body(schema), "createOrder")
	require.NoError(t, err)
	require.Equal(t, "idempotency_key", target.CustomProfile.KeyMember)
	require.Equal(t, 45, target.Key.MaxLength)
	require.True(t, *target.Key.Required)
	require.Equal(t, conformance.Body(`{"note":"{{payload}}"}`), target.Operation.Body)
	require.Contains(t, notes, "the key is the member idempotency_key of the body; custom_profile allows the usual "+
		"statuses: replace them by those of the API")
	require.NotContains(t, notes, "the document names no header for keys: Idempotency-Key is sent")
}

func TestHeaderOfTheKeyWinsOverItsMember(t *testing.T) {
	target, _, err := Target([]byte(post("/x", "", `      parameters: [{name: Idempotency-Key, in: header}]
      requestBody: {content: {application/json: {schema: {type: object, required: [idempotency_key],
        properties: {idempotency_key: {type: string}}}}}}
`, "")), "createOrder")
	require.NoError(t, err)
	require.Nil(t, target.CustomProfile)
	require.False(t, *target.Key.Required)
	require.Equal(t, conformance.Body(`{"idempotency_key":"{{uuid}}"}`), target.Operation.Body)
}

func TestOptionalMembersOfObjectsAndListsDiffer(t *testing.T) {
	const reference = "units: {type: array, items: {properties: {ref: {enum: [a]}, reference_id: {type: string}}}}"
	const oneUnit = `{"units":[{"reference_id":"{{payload}}"}]}`
	const namedUnit = `{"units":[{"ref":"a","reference_id":"{{payload}}"}]}`
	for schema, want := range map[string]string{
		"{properties: {data: {type: object, properties: {name: {type: string}}}}}":  `{"data":{"name":"{{payload}}"}}`,
		"{properties: {data: {required: [n], properties: {name: {type: string}}}}}": `{}`,
		"{properties: {data: {type: object, properties: {kind: {enum: [a]}}}}}":     `{}`,
		"{properties: {html_notes: {type: string}, text: {type: string}}}":          `{"text":"{{payload}}"}`,
		"{properties: {html_notes: {type: string}}}":                                `{}`,
		"{properties: {" + reference + "}, example: {units: [{reference_id: r}]}}":  oneUnit,
		"{properties: {" + reference + "}, example: {units: [{ref: a}]}}":           namedUnit,
	} {
		target, _, err := Target(body("{type: object, "+schema[1:]), "createOrder")
		require.NoError(t, err)
		require.Equal(t, want, string(target.Operation.Body), schema)
	}
}

func TestTextsFitTheirNamesAndLengths(t *testing.T) {
	for property, want := range map[string]string{
		"access_token: {type: string}":                              `"${ACCESS_TOKEN}"`,
		"client_secret: {type: string}":                             `"${CLIENT_SECRET}"`,
		"description: {type: string, maxLength: 3}":                 `"{{number}}"`,
		"description: {type: string, maxLength: 2}":                 `"${DESCRIPTION}"`,
		"currency: {type: string, format: currency}":                `"usd"`,
		"currency_code: {type: string, minLength: 3, maxLength: 3}": `"USD"`,
		"currency: {type: string}":                                  `"USD"`,
		"currency: {type: string, pattern: '^[A-Z]{3}$'}":           `"USD"`,
		"currency: {type: string, pattern: '^[a-z]{3}$'}":           `"${CURRENCY}"`,
		"currency_note: {type: string}":                             `"{{payload}}"`,
		"token_kind: {type: string}":                                `"{{payload}}"`,
	} {
		name, _, _ := strings.Cut(property, ":")
		schema := "{type: object, required: [" + name + "], properties: {" + property + "}}"
		target, _, err := Target(body(schema), "createOrder")
		require.NoError(t, err)
		require.Equal(t, `{"`+name+`":`+want+`}`, string(target.Operation.Body), property)
	}
}

// The parts of a document that can't be read are left out. The target must not be wrong without a word.
func TestUnreadablePartsAreNoted(t *testing.T) {
	const note = "a part of the document could not be read, such as a reference to another file: join the files, or " +
		"compare the target with the document"
	for _, schema := range []string{"{$ref: 'order.json'}", "{$ref: '#/components/schemas/none'}"} {
		_, notes, err := Target(body(schema), "createOrder")
		require.NoError(t, err)
		require.Contains(t, notes, note)
	}
	_, notes, err := Target(body("{type: object, properties: {note: {type: string}}}"), "createOrder")
	require.NoError(t, err)
	require.NotContains(t, notes, note)
}

// A schema whose optional members are itself has no end either.
func TestSearchForATextEnds(t *testing.T) {
	var properties []string
	for i := range 40 {
		properties = append(properties, fmt.Sprintf("p%d: {$ref: '#/components/schemas/Node'}", i))
	}
	target, _, err := Target([]byte(post("/x", "",
		"      requestBody: {content: {application/json: {schema: {$ref: '#/components/schemas/Node'}}}}\n",
		"components: {schemas: {Node: {type: object, properties: {"+strings.Join(properties, ", ")+"}}}}\n")),
		"createOrder")
	require.NoError(t, err)
	require.Equal(t, conformance.Body("{}"), target.Operation.Body)
}

// An example may be older than its schema. The first one that fits is used, or else a value of the schema.
func TestExamplesThatContradictTheSchemaAreNotUsed(t *testing.T) {
	for rest, want := range map[string]string{
		"example: {note: old, b: 1}":                               `{"note":"{{payload}}","b":1}`,
		"example: {note: old}":                                     `{"b":{{number}}}`,
		"example: {b: 1, c: 2}":                                    `{"b":{{number}}}`,
		"examples: {o: {value: {a: 1}}, n: {value: {b: 7}}}":       `{"b":7,"note":"{{payload}}"}`,
		"examples: {o: {value: {a: 1}}, n: {value: {b: 1, c: 1}}}": `{"b":{{number}}}`,
	} {
		schema := "{type: object, required: [b], additionalProperties: false, " +
			"properties: {b: {type: integer}, note: {type: string}}}"
		target, _, err := Target([]byte(post("/x", "",
			"      requestBody: {content: {application/json: {schema: "+schema+", "+rest+"}}}\n", "")), "createOrder")
		require.NoError(t, err)
		require.Equal(t, want, string(target.Operation.Body), rest)
	}
}

func TestBodyWithoutASchemaIsNoted(t *testing.T) {
	const note = "the document has no schema of the body: write it by hand"
	for media, want := range map[string]string{
		"{}":                `{}`,
		"{schema: {}}":      `{}`,
		"{example: {a: 1}}": `{"a":1}`,
		"{schema: {type: object, properties: {note: {type: string}}}}": `{"note":"{{payload}}"}`,
		"{schema: {description: any, example: [1]}}":                   `[1]`,
	} {
		target, notes, err := Target([]byte(post("/x", "",
			"      requestBody: {content: {application/json: "+media+"}}\n", "")), "createOrder")
		require.NoError(t, err)
		require.Equal(t, want, string(target.Operation.Body), media)
		require.Equal(t, want == "{}", slices.Contains(notes, note), media)
	}
}
