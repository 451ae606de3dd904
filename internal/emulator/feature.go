package emulator

import (
	"net/http"
	"slices"
	"strings"
)

// featureCall answers for preview features (Microsoft.Features): every feature there could be is
// known, and is registered once it was asked for.
func (s *resources) featureCall(c *call) (reply, *failure, bool) {
	const at = 4 // subscriptions/X/providers/Microsoft.Features/…
	if len(c.path) < at+1 || !strings.EqualFold(c.path[2], "providers") ||
		!strings.EqualFold(c.path[3], "Microsoft.Features") {
		return reply{}, nil, false
	}
	rest := c.path[at:]
	subscription := "/subscriptions/" + c.path[1]
	all := strings.EqualFold(rest[0], "features") && len(rest) == 1
	of := strings.EqualFold(rest[0], "providers") && len(rest) >= 3 &&
		strings.EqualFold(rest[2], "features")
	switch {
	case c.method == http.MethodGet && (all || of && len(rest) == 3):
		docs := []object{}
		for key := range s.registration {
			name, found := strings.CutPrefix(key, featureKey(subscription, ""))
			if found && (all || strings.HasPrefix(name, strings.ToLower(rest[1])+"/")) {
				docs = append(docs, s.feature(subscription, s.registration["name "+key]))
			}
		}
		slices.SortFunc(
			docs,
			func(a, b object) int { return strings.Compare(text(a, "name"), text(b, "name")) },
		)
		answer, f := s.kernel.pageObjects(c, docs)
		return answer, f, true
	case of && len(rest) == 4 && c.method == http.MethodGet:
		return ok(s.feature(subscription, rest[1]+"/"+rest[3])), nil, true
	case of && len(rest) == 5 && c.method == http.MethodPost &&
		(strings.EqualFold(rest[4], "register") || strings.EqualFold(rest[4], "unregister")):
		name := rest[1] + "/" + rest[3]
		state, soon := "Registered", "Registering"
		if strings.EqualFold(rest[4], "unregister") {
			state, soon = "Unregistered", "Unregistering"
		}
		key := featureKey(subscription, name)
		s.registration[key], s.registration["name "+key] = state, name
		doc := s.feature(subscription, name)
		doc["properties"] = object{"state": soon}
		return ok(doc), nil, true
	}
	return reply{}, notFound(c), true
}

func featureKey(subscription, name string) string {
	return strings.ToLower("feature " + subscription + " " + name)
}

// feature is a feature's document; name is NAMESPACE/NAME.
func (s *resources) feature(subscription, name string) object {
	state := s.registration[featureKey(subscription, name)]
	if state == "" {
		state = "NotRegistered"
	}
	namespace, short, _ := strings.Cut(name, "/")
	return object{
		"id": subscription + "/providers/Microsoft.Features/providers/" + namespace +
			"/features/" + short,
		"name": name, "type": "Microsoft.Features/providers/features", "properties": object{
			"state": state},
	}
}
