package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// withMember returns a JSON object with a text at a path of names with dots between them. All objects on the path must
// be there. An empty path returns the document.
func withMember(doc []byte, path, value string) ([]byte, error) {
	if path == "" {
		return doc, nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(doc, &members); err != nil || members == nil {
		return nil, errors.New("the profile has the key in the body, which must be a JSON object")
	}
	name, rest, deeper := strings.Cut(path, ".")
	var err error
	if deeper {
		if members[name], err = withMember(members[name], rest, value); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	} else {
		members[name], err = json.Marshal(value)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(members)
}

// withoutMembers returns a JSON object without some of its members. It returns nil for any other document.
func withoutMembers(doc []byte, names []string) []byte {
	var members map[string]json.RawMessage
	if len(names) == 0 || json.Unmarshal(doc, &members) != nil || members == nil {
		return nil
	}
	for _, name := range names {
		delete(members, name)
	}
	out, err := json.Marshal(members)
	if err != nil {
		return nil
	}
	return out
}
