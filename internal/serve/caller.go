package serve

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"unicode"
)

// actor is who caused an event, as the activity log has it: the claims of a token, as an object or
// as text that contains the object; and the caller, as a user principal name or an object ID.
type actor struct {
	Caller      any             `json:"caller"`
	Correlation any             `json:"correlationId"`
	Claims      json.RawMessage `json:"claims"`
	Operation   any             `json:"operationName"`
	Status      any             `json:"status"`
	Timestamp   any             `json:"eventTimestamp"`
}

// longestName limits a caller's name, because it comes from outside.
const longestName = 128

// name returns the display name, or "".
func (a actor) name() string {
	claims := a.claims()
	caller, _ := a.Caller.(string)
	caller = printable(caller)
	user := caller
	if !strings.Contains(user, "@") {
		user = ""
	}
	return cmp.Or(claims["name"],
		claims["http://schemas.xmlsoap.org/ws/2005/05/identity/claims/upn"], claims["upn"], user,
		claims["appid"], caller)
}

// identities returns the object and client ID, if known.
func (a actor) identities() []string {
	claims := a.claims()
	caller, _ := a.Caller.(string)
	return slices.DeleteFunc([]string{
		claims["http://schemas.microsoft.com/identity/claims/objectidentifier"], claims["appid"],
		printable(caller)}, func(id string) bool { return id == "" })
}

// claims returns the claims with text values, safe to display.
func (a actor) claims() map[string]string {
	raw := a.Claims
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = json.RawMessage(text)
	}
	var all map[string]any
	if json.Unmarshal(raw, &all) != nil {
		return nil // not an object: ignore them
	}
	claims := map[string]string{}
	for key, value := range all {
		if text, isText := value.(string); isText {
			claims[key] = printable(text)
		}
	}
	return claims
}

// printable makes a text one short line without control characters.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r) || r == unicode.ReplacementChar:
			return -1
		}
		return r
	}, text[:min(len(text), 8*longestName)])
	runes := []rune(oneLine(text))
	if len(runes) > longestName {
		return string(runes[:longestName]) + "…"
	}
	return string(runes)
}
