package resources

import (
	"net/http"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// featureCall answers for preview features (Microsoft.Features): every name is accepted, and
// registered after a request.
func (s *Resources) featureCall(c *kernel.Call) (kernel.Reply, *kernel.Failure, bool) {
	const at = 4 // subscriptions/X/providers/Microsoft.Features/…
	if len(c.Path) < at+1 || !strings.EqualFold(c.Path[2], "providers") ||
		!strings.EqualFold(c.Path[3], "Microsoft.Features") {
		return kernel.Reply{}, nil, false
	}
	rest := c.Path[at:]
	subscription := "/subscriptions/" + c.Path[1]
	all := strings.EqualFold(rest[0], "features") && len(rest) == 1
	of := strings.EqualFold(rest[0], "providers") && len(rest) >= 3 &&
		strings.EqualFold(rest[2], "features")
	switch {
	case c.Method == http.MethodGet && (all || of && len(rest) == 3):
		docs := []kernel.Object{}
		for key := range s.registration {
			name, found := strings.CutPrefix(key, featureKey(subscription, ""))
			if found && (all || strings.HasPrefix(name, strings.ToLower(rest[1])+"/")) {
				docs = append(docs, s.feature(subscription, s.registration["name "+key]))
			}
		}
		slices.SortFunc(docs, func(a, b kernel.Object) int {
			return strings.Compare(kernel.Text(a, "name"), kernel.Text(b, "name"))
		})
		return kernel.Handled(s.kernel.PageObjects(c, docs))
	case of && len(rest) == 4 && c.Method == http.MethodGet:
		return kernel.OK(s.feature(subscription, rest[1]+"/"+rest[3])), nil, true
	case of && len(rest) == 5 && c.Method == http.MethodPost &&
		(strings.EqualFold(rest[4], "register") || strings.EqualFold(rest[4], "unregister")):
		name := rest[1] + "/" + rest[3]
		state, soon := "Registered", "Registering"
		if strings.EqualFold(rest[4], "unregister") {
			state, soon = "Unregistered", "Unregistering"
		}
		key := featureKey(subscription, name)
		s.registration[key], s.registration["name "+key] = state, name
		doc := s.feature(subscription, name)
		doc["properties"] = kernel.Object{"state": soon}
		return kernel.OK(doc), nil, true
	}
	return kernel.Reply{}, kernel.NotFound(c), true
}

func featureKey(subscription, name string) string {
	return strings.ToLower("feature " + subscription + " " + name)
}

// feature returns a feature's document; name is NAMESPACE/NAME.
func (s *Resources) feature(subscription, name string) kernel.Object {
	state := s.registration[featureKey(subscription, name)]
	if state == "" {
		state = "NotRegistered"
	}
	namespace, short, _ := strings.Cut(name, "/")
	return kernel.Object{
		"id": subscription + "/providers/Microsoft.Features/providers/" + namespace +
			"/features/" + short,
		"name": name, "type": "Microsoft.Features/providers/features", "properties": kernel.Object{
			"state": state},
	}
}
