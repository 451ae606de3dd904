package report

import (
	"encoding/json"
	"io"
)

// WriteJSON writes a value as one line of JSON.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
