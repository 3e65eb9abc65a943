package targetfile

import (
	"bytes"
	"os"
	"regexp"

	"github.com/redo-go/redo/conformance"
)

// environment matches ${NAME}, and $${NAME} for the text ${NAME}.
var environment = regexp.MustCompile(`\$?\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// expand replaces the variables of the environment in a JSON document. It returns their values. The lines of its errors
// are those of the file that the document was made from.
func expand(document, file []byte) ([]byte, map[string]string, error) {
	values := map[string]string{}
	var wrong conformance.FieldErrors
	expanded := environment.ReplaceAllFunc(document, func(found []byte) []byte {
		if found[1] == '$' {
			return found[1:]
		}
		name := string(found[2 : len(found)-1])
		value, ok := os.LookupEnv(name)
		if !ok {
			line := 1 + bytes.Count(file[:max(0, bytes.Index(file, found))], []byte("\n"))
			wrong = append(wrong, conformance.FieldError{Line: line, Text: "the environment has no variable " + name})
		}
		values[name] = value
		var c converter
		c.text(value)
		return c.out.Bytes()[1 : c.out.Len()-1] // without its quotation marks
	})
	if wrong != nil {
		return nil, nil, wrong
	}
	return expanded, values, nil
}
