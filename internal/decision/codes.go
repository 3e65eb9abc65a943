package decision

import (
	"fmt"

	"github.com/redo-go/redo/taxonomy"
)

// CheckCodes returns an error for a meaning that an API's response can't have. Each code is in a family of package
// taxonomy, and is not the caller's own. Each status is that of a client error.
func CheckCodes(statuses map[int]taxonomy.Code, own map[string]taxonomy.Code) error {
	const rule = ", which is no code of package taxonomy that a server can give"
	means := func(code taxonomy.Code) bool { return code.Hint() != "" && !code.In(taxonomy.Caller) }
	for s, code := range statuses {
		switch {
		case s < 400 || s > 499:
			return fmt.Errorf("status %d is not a client error", s)
		case !means(code):
			return fmt.Errorf("status %d has the code %q%s", s, string(code), rule)
		}
	}
	for name, code := range own {
		if !means(code) {
			return fmt.Errorf("the API's code %q has the code %q%s", name, string(code), rule)
		}
	}
	return nil
}
