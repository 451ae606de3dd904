package prevent

import (
	"encoding/json"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/policy"
)

// Refused returns what a request lacks that rules would refuse it for: each element of their
// parameters is evaluated by itself. ok is false if the body is no document.
func Refused(rules []Rule, id arm.ID, body []byte) (lacks []string, ok bool) {
	request := policy.Request{Type: id.Type(), ID: id}
	if json.Unmarshal(body, &request.Body) != nil {
		return nil, false
	}
	for _, r := range rules {
		parameter, _ := r.Parameter()
		rule := policy.Rule{If: r.Condition()}
		for _, a := range r.Assignments() {
			for i, element := range a.Value {
				rule.Parameters = object{parameter: object{"value": []any{element}}}
				if r.Effect != "deny" || rule.Holds(request) != policy.Yes {
					continue
				}
				lack := "route " + defaultRoute
				if r.Property != "" {
					lack = r.Property.Name() + " of " + a.about[i].Name()
				}
				lacks = append(lacks, lack)
			}
		}
	}
	return lacks, true
}
