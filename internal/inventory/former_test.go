package inventory

import (
	"fmt"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
)

// TestHadIn: the body of a write names what it gives a subnet or a table; nothing else counts.
func TestHadIn(t *testing.T) {
	const group = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/"
	const vnet = arm.ID(group + "virtualNetworks/v")
	const subnet = vnet + "/subnets/nodes"
	const table = arm.ID(group + "routeTables/rt")
	has := `"properties":{"routeTable":{"id":"` + string(table) + `"},"natGateway":{"id":"` + group +
		`natGateways/nat"},"networkSecurityGroup":null}`
	const both = "[routeTable rt natGateway nat]"
	route := `{"name":"out","properties":{"addressPrefix":"0.0.0.0/0","nextHopIpAddress":"10.0.0.4"}}`
	for name, tt := range map[string]struct {
		body        string
		written, id arm.ID
		want        string
	}{
		"subnet":  {`{` + has + `}`, subnet, subnet, both},
		"network": {`{"properties":{"subnets":[{"name":"Nodes",` + has + `}]}}`, vnet, subnet, both},
		"another subnet of the network": {`{"properties":{"subnets":[{"name":"other",` + has +
			`}]}}`, vnet, subnet, "[]"},
		"a network without subnets": {`{"properties":{}}`, vnet, subnet, "[]"},
		"another subnet":            {`{` + has + `}`, subnet + "2", subnet, "[]"},
		"no ID": {`{"properties":{"routeTable":{"id":"rt"},"natGateway":3}}`, subnet, subnet,
			"[]"},
		"the wrong type": {`{"properties":{"natGateway":{"id":"` + string(table) + `"}}}`, subnet,
			subnet, "[]"},
		"cut":   {`{` + has, subnet, subnet, "[]"},
		"empty": {``, subnet, subnet, "[]"},
		"table": {`{"properties":{"routes":[` + route + `]}}`, table, table, "[out 10.0.0.4]"},
		"route": {route, table + "/routes/egress", table, "[egress 10.0.0.4]"},
		"another route": {`{"properties":{"addressPrefix":"10.0.0.0/8","nextHopIpAddress":` +
			`"10.0.0.4"}}`, table + "/routes/egress", table, "[]"},
		"a route to the internet": {`{"properties":{"addressPrefix":"0.0.0.0/0"}}`,
			table + "/routes/egress", table, "[]"},
		"a route of another table": {route, table + "2/routes/egress", table, "[]"},
	} {
		words := []string{}
		for _, h := range FormerIn(tt.body, tt.written, tt.id) {
			if h.Property != "" {
				words = append(words, string(h.Property), h.Value.Name())
			} else {
				words = append(words, h.Route, h.Hop.String())
			}
		}
		if got := fmt.Sprint(words); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// FuzzHadIn: whatever a record holds, what is read from it are IDs of the right type and addresses.
func FuzzHadIn(f *testing.F) {
	const table = arm.ID("/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/routeTables/t")
	const subnet = arm.ID("/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/" +
		"virtualNetworks/v/subnets/n")
	f.Add(`{"properties":{"routeTable":{"id":"` + string(table) + `"}}}`)
	f.Add(`{"properties":{"subnets":[{"name":"n"}],"routes":[{"properties":{"addressPrefix":` +
		`"0.0.0.0/0","nextHopIpAddress":"10.0.0.4"}}]}}`)
	f.Fuzz(func(t *testing.T, body string) {
		for _, id := range []arm.ID{subnet, table} {
			for _, written := range []arm.ID{id, id.Parent(), id.Child("routes", "r")} {
				for _, h := range FormerIn(body, written, id) {
					if h.Property != "" && !h.Value.Is(h.Property.Type()) ||
						h.Property == "" && !h.Hop.IsValid() {
						t.Errorf("%+v", h)
					}
				}
			}
		}
	})
}
