package arm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"unicode/utf8"
)

// Document is an ARM resource as received. Raw is never edited in place: a write puts back a
// changed copy.
type Document struct {
	ID       ID
	ETag     string
	Location string // "" if the document does not say
	Raw      json.RawMessage
}

// Received returns the document. Types that embed one have the method, too.
func (d Document) Received() Document { return d }

// Decode decodes a document of one of the given resource types, and its properties. Errors name the
// first type. In the flattened shape, in which `az … show` prints the properties next to the name
// and the ID, the properties are the document itself.
func Decode(raw []byte, properties any, resourceTypes ...string) (d Document, _ error) {
	var h struct {
		ID         string          `json:"id"`
		ETag       string          `json:"etag"`
		Location   string          `json:"location"`
		Properties json.RawMessage `json:"properties"`
	}
	text, err := Text(raw)
	if err != nil {
		return d, err
	}
	if err := json.Unmarshal(text, &h); err != nil {
		return d, DescribeJSON(text, err)
	}
	if key := doubled(text); key != "" {
		return d, fmt.Errorf("the key %q is in one object twice: what the document says depends "+
			"on the reader", key)
	}
	if h.ID == "" {
		return d, fmt.Errorf("no field id: expected one resource of type %s", resourceTypes[0])
	}
	id, err := ParseID(h.ID)
	if err != nil {
		return d, fmt.Errorf("id: %q is not a resource ID: %w", h.ID, err)
	}
	if !slices.ContainsFunc(resourceTypes, id.Is) {
		return d, fmt.Errorf("id: %s is a %s, expected a %s", id, id.Type(), resourceTypes[0])
	}
	body := h.Properties
	if body == nil {
		body = text
	}
	if err := json.Unmarshal(body, properties); err != nil {
		return d, DescribeJSON(body, err)
	}
	return Document{ID: id, ETag: h.ETag, Location: h.Location, Raw: raw}, nil
}

// Text returns the content of a file without the byte order mark that some editors add.
func Text(raw []byte) ([]byte, error) {
	raw = bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(raw) {
		return nil, fmt.Errorf("not UTF-8 text (a file redirected by Windows PowerShell is " +
			"UTF-16: save it as UTF-8)")
	}
	return raw, nil
}

// DescribeJSON turns the errors of encoding/json into one line a person can act on.
func DescribeJSON(raw []byte, err error) error {
	switch e := err.(type) {
	case *json.SyntaxError:
		line := 1 + bytes.Count(raw[:min(int(e.Offset), len(raw))], []byte("\n"))
		if len(bytes.TrimSpace(raw)) == 0 {
			return fmt.Errorf("it is empty, expected a JSON object")
		}
		return fmt.Errorf("line %d: not JSON: %w", line, err)
	case *json.UnmarshalTypeError:
		if e.Field == "" {
			hint := ""
			if e.Value == "array" {
				hint = " (az … list writes a list: az … show writes one)"
			}
			return fmt.Errorf("expected a JSON object, found %s%s", e.Value, hint)
		}
		return fmt.Errorf("%s: found %s where %s was expected", e.Field, e.Value, e.Type)
	}
	return err
}

// ParsePrefix parses an address prefix. ARM also allows service tags here, and never answers with
// host bits set. So anything else becomes the zero value.
func ParsePrefix(s string) netip.Prefix {
	p, err := netip.ParsePrefix(s)
	if err != nil || p != p.Masked() {
		return netip.Prefix{}
	}
	return p
}

// ParseRange parses an address prefix, or an address, which becomes a prefix of this one. Anything
// else becomes the zero value.
func ParseRange(s string) netip.Prefix {
	if a, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen())
	}
	p, _ := netip.ParsePrefix(s)
	return p
}

// ParsePrefixes parses address prefixes, each once, and omits what is not a prefix.
func ParsePrefixes(lists ...[]string) []netip.Prefix {
	var out []netip.Prefix
	seen := map[netip.Prefix]bool{}
	for _, list := range lists {
		for _, s := range list {
			if p := ParsePrefix(s); p.IsValid() && !seen[p] {
				seen[p] = true
				out = append(out, p)
			}
		}
	}
	return out
}

// Ref is a link to another resource.
type Ref struct {
	ID ID `json:"id"`
}

// Target returns the ID of the linked resource, or "".
func (r *Ref) Target() ID {
	if r == nil {
		return ""
	}
	return Clean(r.ID)
}

// Clean spells an ID from a document as ParseID does, so that its key matches.
func Clean(id ID) ID {
	if parsed, err := ParseID(string(id)); err == nil {
		return parsed
	}
	return id
}
