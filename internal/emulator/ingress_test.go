package emulator

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/aks"
	"routekeeper.dev/routekeeper/internal/emulator/authorization"
	"routekeeper.dev/routekeeper/internal/emulator/entra"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/emulator/network"
)

// TestIngress: the ingress add-on writes the addresses of the web pods into a pool of its gateway,
// once it has the right, and leaves the other pools unchanged.
func TestIngress(t *testing.T) {
	const gateway = group + "/providers/" + arm.ID(arm.TypeGateway) + "/gw"
	synctest.Test(t, func(t *testing.T) {
		b := withNetwork(t, Options{RouteBatch: time.Second, CheckClusterIdentity: true})
		b.put(vnet.Child("subnets", "gw"), `{"properties":{"addressPrefix":"10.0.9.0/24"}}`)
		b.put(gateway, `{"location":"westeurope","properties":{"gatewayIPConfigurations":[{"name":"c","properties":{"subnet":{"id":"`+string(vnet)+`/subnets/gw"}}}],
			"backendAddressPools":[{"name":"mine","properties":{"backendAddresses":[{"ipAddress":"10.9.9.9"}]}}]}}`)
		b.put(aksID, `{"location":"westeurope","identity":{"type":"SystemAssigned"},"properties":{
			"networkProfile":{"networkPlugin":"azure","networkPluginMode":"overlay","serviceCidr":"172.16.0.0/16","dnsServiceIP":"172.16.0.10"},
			"addonProfiles":{"ingressApplicationGateway":{"enabled":true,"config":{"applicationGatewayId":"`+string(gateway)+`"}}},
			"agentPoolProfiles":[{"name":"np","mode":"System","count":2,"vnetSubnetID":"`+
			string(vnet)+`/subnets/a"}]}}`)
		pools := func() map[string][]string {
			out := map[string][]string{}
			for _, p := range kernel.ListAt(b.get(gateway), "properties", "backendAddressPools") {
				out[kernel.Text(p, "name")] = []string{}
				for _, a := range kernel.ListAt(p, "properties", "backendAddresses") {
					out[kernel.Text(p, "name")] = append(out[kernel.Text(p, "name")],
						kernel.Text(a, "ipAddress"))
				}
			}
			return out
		}
		web := func() []string {
			out := []string{}
			_, pods := b.kubernetes(aksID)
			for _, p := range pods {
				if p.Namespace == "default" {
					out = append(out, p.Addresses[0].String())
				}
			}
			return out
		}
		time.Sleep(time.Minute)
		if _, there := pools()[network.IngressPool]; there {
			t.Error("the add-on writes the gateway without a role on it")
		}
		identity := entra.IdentityOf(
			b.e.kernel.Store.Get(b.e.aks.Clusters[aksID.Key()].AddonIdentity(aks.IngressAddon)))
		b.put(group+"/providers/"+arm.TypeRoleAssignment+
			"/a55160ed-0000-4000-8000-000000000009",
			`{"properties":{"roleDefinitionId":"`+authorization.RoleID(arm.ID(group).Subscription(),
				"b24988ac-6180-42a0-ab88-20f7382dd24c")+`","principalId":"`+identity.ObjectID+`"}}`)
		for _, count := range []int{2, 4, 1} {
			if err := b.e.Scale(aksID, "np", count); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			have, want := pools(), web()
			slices.Sort(have[network.IngressPool])
			slices.Sort(want)
			if len(want) != count || !slices.Equal(have[network.IngressPool], want) ||
				!slices.Equal(have["mine"], []string{"10.9.9.9"}) {
				t.Errorf("%d nodes: the pools are %v, the pods %v", count, have, want)
			}
		}
		before := b.e.LastRequest()
		time.Sleep(time.Hour)
		for _, r := range b.e.Requests(before) {
			if r.Method == http.MethodPut {
				t.Errorf("%s writes %s although nothing has changed", r.Principal, r.Path)
			}
		}
	})
}
