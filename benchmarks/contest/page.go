package contest

import (
	"fmt"
	"os"
	"strings"
)

// A Block is a generated part of a Markdown page. It replaces the text between two comments:
//
//	<!-- benchmarks: name -->
//	<!-- benchmarks: end -->
type Block struct {
	Name string
	Text string
}

const endMark = "<!-- benchmarks: end -->\n"

func (b Block) startMark() string { return "<!-- benchmarks: " + b.Name + " -->\n" }

// Find returns the text of the named block in a page. It returns an error if the page has no such block.
func Find(page, name string) (string, error) {
	_, text, _, err := Block{Name: name}.cut(page)
	return text, err
}

// cut splits a page into the parts before, in and after the block. The marks belong to the outer parts.
func (b Block) cut(page string) (before, text, after string, err error) {
	before, rest, ok := strings.Cut(page, b.startMark())
	if !ok {
		return "", "", "", fmt.Errorf("the page has no line %q", strings.TrimSpace(b.startMark()))
	}
	text, after, ok = strings.Cut(rest, endMark)
	if !ok {
		return "", "", "", fmt.Errorf("the page has no line %q after %q", strings.TrimSpace(endMark),
			strings.TrimSpace(b.startMark()))
	}
	return before + b.startMark(), text, endMark + after, nil
}

// Publish writes the blocks into the file at path. It changes nothing if the file lacks one of them.
func Publish(path string, blocks []Block) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	page := string(content)
	for _, b := range blocks {
		before, _, after, err := b.cut(page)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		page = before + b.Text + after
	}
	return os.WriteFile(path, []byte(page), 0o644)
}
