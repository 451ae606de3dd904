package emulator

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// TestBackendHealth: every server of a pool that a rule sends to is probed at the port of the
// rule's settings, by who may call the local Azure meanwhile. Without anybody who knows, and for
// names and stopped gateways, the health is unknown.
func TestBackendHealth(t *testing.T) {
	const gateway = group + "/providers/" + arm.ID(arm.TypeGateway) + "/gw"
	part := func(list, name string) string {
		return fmt.Sprintf(`{"id":"%s/%s/%s"}`, gateway, list, name)
	}
	servers := func(b *bench) (out []string) {
		status, body := b.c.Do(http.MethodPost, gateway+"/backendhealth", api, nil)
		doc, f := kernel.DecodeObject(body)
		if status != 200 || f != nil {
			t.Fatalf("%d %s", status, body)
		}
		for _, pool := range kernel.ListAt(doc, "backendAddressPools") {
			for _, settings := range kernel.ListAt(pool, "backendHttpSettingsCollection") {
				for _, server := range kernel.ListAt(settings, "servers") {
					out = append(out, kernel.Text(server, "address")+" "+
						kernel.Text(server, "health"))
				}
			}
		}
		return out
	}
	var b *bench
	probe := func(_ context.Context, p Probe) (Health, string) {
		if doc := b.get(p.Gateway); kernel.Text(doc, "name") != "gw" { // nothing is locked
			t.Errorf("%v", doc)
		}
		switch fmt.Sprintf("%s:%d", p.To, p.Port) {
		case "10.9.9.1:8080":
			return Healthy, ""
		case "10.9.9.2:8080":
			return Unhealthy, "no route"
		}
		return Unknown, "never heard of it"
	}
	for _, known := range []bool{true, false} {
		opts := Options{}
		if known {
			opts.Probe = probe
		}
		b = withNetwork(t, opts)
		b.put(vnet.Child("subnets", "gw"), `{"properties":{"addressPrefix":"10.0.9.0/24"}}`)
		b.put(gateway, `{"location":"westeurope","properties":{"gatewayIPConfigurations":[{"name":"c",
			"properties":{"subnet":{"id":"`+string(vnet)+`/subnets/gw"}}}],
			"backendHttpSettingsCollection":[{"name":"s","properties":{"port":8080}}],
			"requestRoutingRules":[{"name":"r","properties":{"backendAddressPool":`+
			part("backendAddressPools", "used")+`,"backendHttpSettings":`+
			part("backendHttpSettingsCollection", "s")+`}}],
			"backendAddressPools":[
				{"name":"unused","properties":{"backendAddresses":[{"ipAddress":"10.9.9.9"}]}},
				{"name":"used","properties":{"backendAddresses":[{"ipAddress":"10.9.9.1"},
				{"ipAddress":"10.9.9.2"},{"ipAddress":"10.9.9.3"},{"fqdn":"web.example"}]}}]}}`)
		want := []string{"10.9.9.1 Healthy", "10.9.9.2 Unhealthy", "10.9.9.3 Unknown",
			"web.example Unknown"}
		if !known {
			want = []string{"10.9.9.1 Unknown", "10.9.9.2 Unknown", "10.9.9.3 Unknown",
				"web.example Unknown"}
		}
		if got := servers(b); !slices.Equal(got, want) {
			t.Errorf("known %t: %q", known, got)
		}
		b.try(http.MethodPost, gateway+"/stop", api, "")
		if got := servers(b); strings.Contains(strings.Join(got, ","), "ealthy") {
			t.Errorf("stopped: %q", got)
		}
	}
	b.refused(http.MethodPost, gateway+"2/backendhealth", "", 404, "ResourceNotFound")
}
