package bundle

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// secretive are parts of field names whose text is taken out. ARM never returns most of them; a field that it will return some day
// is not to be the first to be given away.
var secretive = []string{"password", "secret", "token", "credential", "customdata", "userdata", "protectedsettings", "privatekey", "keydata", "accesskey", "sharedkey", "connectionstring"}

// removed stands in the place of what was taken out.
const removed = "(removed)"

// redact takes the text of secretive fields, and all tags but those of AKS and Virtual Network Manager, out of a document; everything
// else stays, its fields sorted.
func redact(raw []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var document any
	if err := d.Decode(&document); err != nil {
		return nil, err
	}
	if top, ok := document.(map[string]any); ok {
		if tags, ok := top["tags"].(map[string]any); ok {
			for name := range tags {
				if lower := strings.ToLower(name); !strings.HasPrefix(lower, "aks-") && !strings.Contains(lower, "avnm") && !strings.Contains(lower, "manag") {
					tags[name] = removed
				}
			}
		}
	}
	clean(document, false)
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(document); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// clean replaces text in place: that of fields with secretive names, and that of lists in them.
func clean(value any, secret bool) any {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			v[name] = clean(inner, isSecretive(name))
		}
	case []any:
		for i, inner := range v {
			v[i] = clean(inner, secret)
		}
	case string:
		if secret && v != "" {
			return removed
		}
	}
	return value
}

func isSecretive(name string) bool {
	lower := strings.ToLower(name)
	return slices.ContainsFunc(secretive, func(part string) bool { return strings.Contains(lower, part) })
}
