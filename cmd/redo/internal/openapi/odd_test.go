package openapi

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOddDocumentIsRefusedInItsUsersWords(t *testing.T) {
	for document, want := range map[string]string{
		"":                   "the document is empty",
		"# nothing\n":        "the document is empty",
		"null":               "the document is empty",
		"hello":              "the document is no OpenAPI 3: it is no object",
		"5":                  "the document is no OpenAPI 3: it is no object",
		"- a\n":              "the document is no OpenAPI 3: it is no object",
		"<html></html>":      "the document is no OpenAPI 3: it is no object",
		"a: b\n":             `the document is no OpenAPI 3: it has no member "openapi"`,
		"swagger: '2.0'\n":   "the document is no OpenAPI 3: it is Swagger 2.0",
		"openapi: [3]\n":     `the document is no OpenAPI 3: line 1: its member "openapi" is ""`,
		"openapi: 4.0.0\n":   `the document is no OpenAPI 3: line 1: its member "openapi" is "4.0.0"`,
		"openapi: 3.0.0\n":   `the document has no operation "make": it has none`,
		"\ufeffopenapi: 3\n": `the document has no operation "make": it has none`,
	} {
		_, _, err := Target([]byte(document), "make")
		require.EqualError(t, err, want, document)
	}
	for _, document := range []string{"\x00", "openapi: 3.0.0\n\tpaths: {}\n", `{"openapi": "3.0.0",`} {
		_, _, err := Target([]byte(document), "make")
		require.ErrorContains(t, err, "the document is neither YAML nor JSON: ")
	}
}
