package iac

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// TestUnknownSubnet: in every real plan, the subnet carries pods as well if the plan makes the
// subnet of its user unknown, as a change of an inline block does.
func TestUnknownSubnet(t *testing.T) {
	const group = "/subscriptions/s/resourceGroups/g/providers/Microsoft."
	const id = group + "ContainerService/managedClusters/shop"
	const profile = `"network_profile":[{"network_plugin":"kubenet"}]`
	const azapi = `{"id":"` + id + `","type":"Microsoft.ContainerService/managedClusters@2025-05-01",` +
		`"body":{"properties":{"networkProfile":{"networkPlugin":"kubenet"},"agentPoolProfiles":[` +
		`{"name":"system","vnetSubnetID":SUBNET}]}}}`
	own := changes(tfCluster, "shop", "no-op", `{"id":"`+id+`",`+profile+`}`, `{"id":"`+id+`",`+
		profile+`}`)
	for _, c := range []struct{ name, kind, actions, values, unknown, with string }{
		{"the cluster", tfCluster, "update", `{"id":"` + id + `",` + profile +
			`,"default_node_pool":[{"name":"system","vnet_subnet_id":SUBNET}]}`,
			`{"default_node_pool":[{"vnet_subnet_id":true}]}`, ""},
		{"the whole block", tfCluster, "update", `{"id":"` + id + `",` + profile +
			`,"default_node_pool":[{"name":"system","vnet_subnet_id":SUBNET}]}`,
			`{"default_node_pool":true,"network_profile":true}`, ""},
		{"a pool", tfPool, "update", `{"id":"` + id + `/agentPools/p","name":"p",` +
			`"kubernetes_cluster_id":"` + id + `","vnet_subnet_id":SUBNET}`,
			`{"vnet_subnet_id":true}`, own},
		{"a pool that is replaced", tfPool, "create,delete", `{"id":"` + id +
			`/agentPools/p","name":"p","kubernetes_cluster_id":"` + id +
			`","vnet_subnet_id":SUBNET}`, `{"id":true,"vnet_subnet_id":true}`, own},
		{"a gateway", tfGateway, "update", `{"id":"` + group + `Network/applicationGateways/gw",` +
			`"gateway_ip_configuration":[{"subnet_id":SUBNET}]}`,
			`{"gateway_ip_configuration":[{"subnet_id":true}]}`, ""},
		{"azapi", tfAzapi, "update", azapi,
			`{"body":{"properties":{"agentPoolProfiles":[{"vnetSubnetID":true}]}}}`, ""},
		{"azapi, the whole body", tfAzapi, "update", azapi, `{"body":true}`, ""},
	} {
		for name, want := range verdicts {
			p := load(t, name)
			for _, r := range p["resource_changes"].([]any) {
				change := r.(map[string]any)["change"].(map[string]any)
				if r.(map[string]any)["type"] != tfVNet {
					continue
				}
				nodes := change["before"].(map[string]any)["id"].(string) + "/subnets/aks-nodes"
				before := strings.Replace(c.values, "SUBNET", `"`+nodes+`"`, 1)
				after := before
				for _, unknown := range []string{`,"vnet_subnet_id":SUBNET`,
					`"subnet_id":SUBNET`, `,"vnetSubnetID":SUBNET`} {
					after = strings.Replace(after,
						strings.Replace(unknown, "SUBNET", `"`+nodes+`"`, 1), "", 1)
				}
				if c.name == "azapi, the whole body" {
					after = strings.Replace(after, `"body":{`, `"no":{`, 1)
				}
				for _, entry := range []string{c.with,
					changes(c.kind, "u", c.actions, before, after, `,"after_unknown":`+c.unknown)} {
					var v any
					if entry == "" {
						continue
					} else if err := json.Unmarshal([]byte(entry), &v); err != nil {
						t.Fatal(err)
					}
					p["resource_changes"] = append(p["resource_changes"].([]any), v)
				}
				break
			}
			r, err := readPlain("plan.json", bytes.NewReader(dump(t, p)))
			if err != nil {
				t.Fatal(err)
			}
			t.Run(c.name+"/"+name, func(t *testing.T) {
				check(t, r.Findings(Known{}), want, worst(want))
			})
		}
	}
}
