package wire

import (
	"encoding/json"
	"errors"
	"io"
)

// DecodeJSON reads one JSON value into out. An empty body leaves out unchanged.
func DecodeJSON(r io.Reader, out any) error {
	d := json.NewDecoder(r)
	if err := d.Decode(out); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after the JSON value")
	}
	return nil
}
