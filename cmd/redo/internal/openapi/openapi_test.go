package openapi

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/conformance"
)

const document = `openapi: 3.0.3
info: {title: bank, version: "1"}
servers: [{url: "https://{region}.bank.example/v1/", variables: {region: {default: eu}}}]
security: [{token: []}]
paths:
  /accounts/{account_id}/transfers:
    parameters: [{name: account_id, in: path, required: true, schema: {type: string}}]
    post:
      operationId: createTransfer
      parameters:
        - {name: X-Idempotency-Key, in: header, schema: {type: string, format: uuid}}
        - {name: mode, in: query, required: true, schema: {type: string, enum: [live, test]}}
        - {name: page, in: query, schema: {type: integer}}
      requestBody:
        content:
          application/json:
            schema:
              allOf:
                - {type: object, required: [amount, currency], properties: {
                    amount: {type: integer, minimum: 1}, currency: {type: string, example: EUR}}}
                - {type: object, required: [to, at, lines], properties: {
                    to: {$ref: '#/components/schemas/Party'}, at: {type: string, format: date-time},
                    lines: {type: array, items: {type: object, properties: {}}}, note: {type: string}}}
      responses:
        "201": {description: made, content: {application/json: {schema: {type: object, properties: {
          transfer: {type: object, properties: {id: {type: string}}}}}}}}
  /fixed:
    post:
      operationId: createFixed
      security: [{key: []}]
      requestBody: {content: {application/x-www-form-urlencoded: {schema: {type: object, required: [kind, card],
        properties: {kind: {type: string, enum: ["a b"]}, description: {type: string},
          card: {type: object, required: [exp], properties: {exp: {type: integer, maximum: 12}}}}}}}}
      responses: {"204": {description: made}}
components:
  schemas: {Party: {type: object, required: [bank_id, name],
    properties: {bank_id: {type: string}, name: {type: string}}}}
  securitySchemes: {token: {type: http, scheme: bearer}, key: {type: apiKey, in: header, name: X-Api-Key}}
`

func TestTargetIsWrittenFromADocument(t *testing.T) {
	for _, name := range []string{"createTransfer", "POST /accounts/{account_id}/transfers"} {
		target, notes, err := Target([]byte(document), name)
		require.NoError(t, err)
		require.Equal(t, "https://eu.bank.example/v1", target.BaseURL)
		require.Equal(t, "/accounts/${ACCOUNT_ID}/transfers?mode=live", target.Operation.Path)
		require.Equal(t, conformance.Body(`{"amount":{{number}},"currency":"EUR",`+
			`"to":{"bank_id":"${BANK_ID}","name":"{{payload}}"},`+
			`"at":"{{now}}","lines":[{}]}`), target.Operation.Body)
		require.Equal(t, "X-Idempotency-Key", target.Key.Header)
		require.True(t, target.Key.UUID)
		require.False(t, *target.Key.Required)
		require.Equal(t, "Bearer ${TOKEN}", target.Principals[0].Headers["Authorization"])
		require.Equal(t, "transfer.id", target.Effects.ResponseID)
		require.Contains(t, notes, "set in the environment: ACCOUNT_ID, BANK_ID, TOKEN")
	}
}

func TestFormGetsATextThatDiffers(t *testing.T) {
	target, notes, err := Target([]byte(document), "createFixed")
	require.NoError(t, err)
	require.Equal(t, conformance.Body("kind=a+b&card[exp]=1&description={{payload}}"), target.Operation.Body)
	require.Equal(t, "${X_API_KEY}", target.Principals[0].Headers["X-Api-Key"])
	require.Nil(t, target.Effects)
	require.Contains(t, notes, "the document names no header for keys: Idempotency-Key is sent")
	require.Contains(t, notes, "nothing counts effects: add effects, or most rules stay unproved")
}

func TestWrongDocumentsAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "",
		"swagger: '2.0'\ninfo: {}\n":  "the document is no OpenAPI 3",
		"openapi: 3.0.0\npaths: {}\n": `no operation "createTransfr"`,
		document:                      "(did you mean createTransfer?)",
	} {
		_, _, err := Target([]byte(text), "createTransfr")
		require.ErrorContains(t, err, want)
	}
}
