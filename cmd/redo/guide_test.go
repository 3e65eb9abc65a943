package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/cmd/redo/internal/targetfile"
	"github.com/redo-go/redo/internal/freeport"
	"github.com/redo-go/redo/internal/racetest"
)

// block is a fenced block of a page: its language, maybe a file's name, and its text.
var block = regexp.MustCompile("(?ms)^```(\\w+)(?: (\\S+))?\n(.*?)^```$")

const openAPI = `openapi: 3.1.0
info: {title: shop, version: "1"}
servers: [{url: "https://shop.example/v1"}]
paths:
  /orders:
    post:
      operationId: createOrder
      parameters: [{name: Idempotency-Key, in: header, required: true, schema: {type: string, maxLength: 64}}]
      requestBody:
        content:
          application/json:
            schema: {type: object, required: [item, amount],
              properties: {item: {type: string}, amount: {type: integer}}}
      responses:
        "201": {description: made, content: {application/json: {schema:
          {type: object, properties: {id: {type: string}}}}}}
`

// The commands of the guide run in order in one shell. A comment such as "exit 1" at a line's end is its exit status.
func TestEveryCommandOfTheGuideRuns(t *testing.T) {
	racetest.Repeats(t)
	page, err := os.ReadFile("../../docs/conformance-guide.md")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("openapi.yaml", []byte(openAPI), 0o600))
	require.NoError(t, os.WriteFile("empty.txt", nil, 0o600))
	elsewhere := strings.NewReplacer("127.0.0.1:8080", free(t), "127.0.0.1:8081", free(t))
	script, commands := "set -eu\ntrap 'kill $(jobs -p); wait' EXIT\n", 0
	for _, b := range block.FindAllStringSubmatch(elsewhere.Replace(string(page)), -1) {
		kind, name, text := b[1], b[2], b[3]
		if name != "" {
			require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		}
		if kind != "sh" {
			continue
		}
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "go install ") {
				continue
			}
			commands++
			command, status, _ := strings.Cut(line, "# exit ")
			if status == "" {
				status = "0"
			}
			if file, ok := strings.CutSuffix(command, " &"); ok {
				script += command + "\nuntil [ -s " + file[strings.LastIndex(file, " ")+1:] + " ]; do sleep 0.1; done\n"
				continue
			}
			if strings.HasPrefix(command, "export ") {
				script += command + "\n"
				continue
			}
			script += "status=0; " + command + " || status=$?\n[ $status = " + status +
				" ] || { echo \"exit $status\" >&2; exit 9; }\n"
		}
	}
	require.Greater(t, commands, 12)
	out, err := exec.CommandContext(t.Context(), "bash", "-xc", script).CombinedOutput()
	require.NoError(t, err, "%s", out)
	order, err := os.ReadFile("order.yaml")
	require.NoError(t, err)
	target, err := targetfile.Parse("order.yaml", order)
	require.NoError(t, err)
	require.Equal(t, `{"item":"{{payload}}","amount":{{number}}}`, string(target.Operation.Body))
	require.Equal(t, 64, target.Key.MaxLength)
	require.True(t, *target.Key.Required)
	require.Equal(t, "id", target.Effects.ResponseID)
}

// free returns a local address that nothing listens on.
func free(t *testing.T) string {
	address, err := freeport.Address()
	require.NoError(t, err)
	return address
}
