package prevent

import (
	"encoding/json"
	"slices"
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

// property returns the raw value of a property: ARM's names have no case.
func (w written) property(name string) json.RawMessage {
	for key, raw := range w.Properties {
		if strings.EqualFold(key, name) {
			return raw
		}
	}
	return nil
}

// Refused returns what a request lacks that rules would refuse it for. It is what Condition says,
// for the requests that the activity log shows. ok is false if the body is no document.
func Refused(rules []Rule, id arm.ID, body []byte) (lacks []string, ok bool) {
	var request written
	if json.Unmarshal(body, &request) != nil {
		return nil, false
	}
	var subnets []written
	var list []struct {
		Properties struct{ AddressPrefix string }
	}
	for name, into := range map[string]any{"subnets": &subnets, "routes": &list} {
		if raw := request.property(name); raw != nil && json.Unmarshal(raw, into) != nil {
			return nil, false
		}
	}
	for _, r := range rules {
		for _, n := range r.Needs {
			lost := id.Equal(n.Subnet) && request.lacks(n)
			for _, subnet := range subnets {
				lost = lost || id.Equal(n.Subnet.Parent()) &&
					strings.EqualFold(subnet.Name, n.Subnet.Name()) && subnet.lacks(n)
			}
			if lost {
				lacks = append(lacks, n.Property.Name()+" of "+n.Subnet.Name())
			}
		}
		if r.Effect == "deny" && slices.ContainsFunc(r.Tables, id.Equal) {
			there := false
			for _, route := range list {
				there = there || route.Properties.AddressPrefix == defaultRoute
			}
			if !there {
				lacks = append(lacks, "route "+defaultRoute)
			}
		}
	}
	return lacks, true
}

// lacks reports whether a subnet does not have what it must have.
func (w written) lacks(n Need) bool {
	var has link
	_ = json.Unmarshal(w.property(string(n.Property)), &has) // absent: it has nothing
	return !has.ID.Equal(n.Value)
}
