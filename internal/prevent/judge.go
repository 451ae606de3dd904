package prevent

import (
	"encoding/json"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// link is what a subnet has: {"id": …}, or null.
type link struct {
	ID arm.ID `json:"id"`
}

// written is the part of a request that rules read.
type written struct {
	Name       string `json:"name"`
	Properties map[string]json.RawMessage
}

// property is the raw value of a property: ARM's names have no case.
func (w written) property(name string) json.RawMessage {
	for key, raw := range w.Properties {
		if strings.EqualFold(key, name) {
			return raw
		}
	}
	return nil
}

// Refused returns what rules would refuse a request for: the needs that it does not meet. It is
// what Condition says, for the requests that the activity log shows. ok is false if the body is no
// document.
func Refused(rules []Rule, id arm.ID, body []byte) (needs []Need, ok bool) {
	var request written
	if json.Unmarshal(body, &request) != nil {
		return nil, false
	}
	var subnets []written
	if raw := request.property("subnets"); raw != nil {
		if json.Unmarshal(raw, &subnets) != nil {
			return nil, false
		}
	}
	for _, r := range rules {
		for _, n := range r.Needs {
			if id.Equal(n.Subnet) && request.lacks(n) {
				needs = append(needs, n)
			}
			for _, subnet := range subnets {
				if id.Equal(n.Subnet.Parent()) && strings.EqualFold(subnet.Name, n.Subnet.Name()) &&
					subnet.lacks(n) {
					needs = append(needs, n)
				}
			}
		}
	}
	return needs, true
}

// lacks reports whether a subnet does not have what it must have.
func (w written) lacks(n Need) bool {
	var has link
	_ = json.Unmarshal(w.property(string(n.Property)), &has) // absent: it has nothing
	return !has.ID.Equal(n.Value)
}
