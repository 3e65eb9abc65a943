package openapi

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/cmd/redo/internal/targetfile"
)

// post is a document with one operation, createOrder.
func post(path, item, operation, rest string) string {
	return "openapi: 3.0.3\ninfo: {title: shop, version: \"1\"}\npaths:\n  " + path + ":\n" + item +
		"    post:\n      operationId: createOrder\n" + operation +
		"      responses: {\"204\": {description: made}}\n" + rest
}

func TestIncompleteDocumentsAreNoPanic(t *testing.T) {
	for name, document := range map[string]string{
		"no media type": post("/x", "", "      requestBody: {content: {application/json: null}}\n", ""),
		"no example": post("/x", "", "      requestBody: {content: {application/json: {examples: {a: null}}}}\n",
			""),
		"no parameter": post("/x", "", "      parameters: [null, {$ref: '#/components/parameters/none'}]\n", ""),
		"no scheme":    post("/x", "", "      security: [{none: []}, null]\n", "components: {}\n"),
		"no schema": post("/x", "",
			"      requestBody: {content: {application/json: {schema: {$ref: '#/none'}}}}\n", ""),
		"no items": post("/x", "", "      requestBody: {content: {application/json: {schema: {type: array}}}}\n",
			""),
		"an empty path":   "openapi: 3.0.3\ninfo: {}\npaths: {/x: null}\n",
		"an empty method": "openapi: 3.0.3\ninfo: {}\npaths: {/x: {post: null}}\n",
		"a circle of aliases": post("/x", "", "      requestBody: {content: {application/json: {example: &a [*a]}}}\n",
			""),
	} {
		t.Run(name, func(t *testing.T) {
			require.NotPanics(t, func() { _, _, _ = Target([]byte(document), "createOrder") })
		})
	}
}

// A document must not read the environment of the person who uses its target file.
func TestTextsOfADocumentAreNoVariables(t *testing.T) {
	t.Setenv("REDO_TEST_SECRET", "very-secret")
	target, _, err := Target([]byte(post("/x", "", `      parameters:
        - {name: "a${REDO_TEST_SECRET}", in: query, required: true,
           schema: {type: string, enum: ["b${REDO_TEST_SECRET}{{run}}"]}}
      requestBody: {content: {"application/json; a=${REDO_TEST_SECRET}":
        {example: {"c${REDO_TEST_SECRET}": "d${REDO_TEST_SECRET} {{run}}"}}}}
`, "servers: [{url: \"https://h.example/${REDO_TEST_SECRET}\"}]\n")), "createOrder")
	require.NoError(t, err)
	text, err := targetfile.Format(target)
	require.NoError(t, err)
	read, err := targetfile.Parse("t.yaml", text)
	require.NoError(t, err)
	require.Empty(t, read.Secrets)
	require.Equal(t, "{\"c${REDO_TEST_SECRET}\":\"d${REDO_TEST_SECRET} {\\u007brun}}\"}", string(read.Operation.Body))
	require.NotContains(t, read.BaseURL+read.Operation.Path+read.Operation.Headers["Content-Type"], "very-secret")
}

func TestScalarsOfYAMLBecomeJSON(t *testing.T) {
	target, _, err := Target([]byte(post("/x", "", `      requestBody: {content: {application/json: {example:
        {a: True, b: ~, c: 0x1F, d: .5, e: 1_000, f: 2020-01-02, g: "5", h: 12345678901234567890, reference: x}}}}
`, "")), "createOrder")
	require.NoError(t, err)
	require.Equal(t, `{"a":true,"b":null,"c":31,"d":0.5,"e":1000,"f":"2020-01-02","g":"5",`+
		`"h":12345678901234567890,"reference":"x"}`,
		string(target.Operation.Body))
}

func TestNumbersKeepTheirBounds(t *testing.T) {
	for schema, want := range map[string]string{
		"{type: integer}": "{{number}}",
		"{type: integer, multipleOf: 10, minimum: 45}":  "50",
		"{type: integer, multipleOf: 10}":               "10",
		"{type: integer, maximum: -5}":                  "-5",
		"{type: integer, minimum: 7}":                   "7",
		"{type: number, minimum: 0.5, maximum: 0.75}":   "0.5",
		"{type: integer, maximum: 120}":                 "1",
		"{type: integer, minimum: 1, maximum: 1000000}": "{{number}}",
	} {
		target, _, err := Target([]byte(post("/x", "",
			"      requestBody: {content: {application/json: {schema: {type: object, required: [n], "+
				"properties: {n: "+schema+"}}}}}\n", "")), "createOrder")
		require.NoError(t, err)
		require.Equal(t, `{"n":`+want+`}`, string(target.Operation.Body), schema)
	}
}

func TestRelativeServerKeepsItsPath(t *testing.T) {
	target, notes, err := Target([]byte(post("/x", "", "", "servers: [{url: /v2/}]\n")), "createOrder")
	require.NoError(t, err)
	require.Equal(t, "http://localhost:8080/v2", target.BaseURL)
	require.Contains(t, notes, "the document has no absolute server URL: set base_url")
}

func TestParametersOfTheOperationReplaceThoseOfThePath(t *testing.T) {
	target, notes, err := Target([]byte(post("/x/{shop}/{case}", `    parameters:
      - {name: mode, in: query, required: true, schema: {type: string, enum: [live]}}
      - {name: area, in: query, required: true, schema: {type: string, enum: [eu]}}
`, `      parameters:
        - {name: mode, in: query, required: true, schema: {type: string, enum: [test]}}
        - {name: Authorization, in: header, required: true, schema: {type: string}}
        - {name: session, in: cookie, required: true, schema: {type: string}}
`, "")), "createOrder")
	require.NoError(t, err)
	require.Equal(t, "/x/${SHOP}/${CASE}?area=eu&mode=test", target.Operation.Path)
	require.NotContains(t, target.Operation.Headers, "Authorization")
	require.Equal(t, "session=${SESSION}", target.Operation.Headers["Cookie"])
	require.Contains(t, notes, "set in the environment: CASE, SESSION, SHOP")
}

// A schema that requires itself has no finite value. Its size must not grow with the power of its depth.
func TestSchemaThatRequiresItselfEnds(t *testing.T) {
	members := strings.Split("abcdefgh", "")
	const body = "{content: {application/json: {schema: {$ref: '#/components/schemas/Node'}}}}"
	document := post("/x", "", "      requestBody: "+body+"\n",
		"components: {schemas: {Node: {type: object, required: ["+strings.Join(members, ",")+"], properties: {"+
			strings.Join(members, ": {$ref: '#/components/schemas/Node'}, ")+": {$ref: '#/components/schemas/Node'}}}}}\n")
	target, _, err := Target([]byte(document), "createOrder")
	require.NoError(t, err)
	values := strings.Count(string(target.Operation.Body), ":")
	require.Greater(t, values, 100)
	require.LessOrEqual(t, values, 2*maxValues) // each of them is null, or has a null for each member
}
