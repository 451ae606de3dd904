package cli

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
)

// Commands that the scripts of cluster verify add to those of TestScripts:
//
//	cluster PLUGIN      build a cluster named c1 with its network, gateway and ingress add-on
//	arm DELETE ID       delete a resource as the operator, and wait until it is gone
//	arm STRIP ID        write a subnet without its route table
//	arm PUT ID FILE     write a resource as the operator
//	arm GET ID          print a resource, without the fields that every write changes
//	saved NODES PODS    write what kubectl get -o json prints for c1 into files

const (
	verifyNetwork = "2025-05-01"
	verifyAKS     = "2025-10-01"
)

// built returns the ID of a resource of scriptCluster.
func built(name string) arm.ID {
	const sub = emulator.DefaultSubscription
	vnet := arm.ResourceID(sub, "c1-rg", arm.TypeVNet, "c1-vnet")
	return map[string]arm.ID{
		"C1": arm.ResourceID(sub, "c1-rg", arm.TypeCluster, "c1"), "VNET": vnet,
		"C1NODES": vnet.Child("subnets", "nodes"), "C1PODS": vnet.Child("subnets",
			"pods"), "C1GW": vnet.Child("subnets", "appgw"),
		"C1TABLE": arm.ResourceID(sub, "c1-rg", arm.TypeRouteTable,
			"nodes-rt"), "C1GWTABLE": arm.ResourceID(sub, "c1-rg", arm.TypeRouteTable, "appgw-rt"),
		"ADDONROLE": arm.GroupID(sub, "c1-rg") +
			"/providers/Microsoft.Authorization/roleAssignments/a55160ed-0000-4000-8000-0000000000c2",
		"AGW": arm.ResourceID(sub, "c1-rg", arm.TypeGateway, "agw"),
		"ROLE": arm.GroupID(sub, "c1-rg") +
			"/providers/Microsoft.Authorization/roleAssignments/a55160ed-0000-4000-8000-0000000000c1",
	}[name]
}

func scriptCluster(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: cluster PLUGIN")
	}
	ts.Check(running.get(ts.Getenv("WORK")).build(args[0]))
	for _, name := range []string{"C1", "VNET", "C1NODES", "C1PODS", "C1GW", "C1TABLE", "C1GWTABLE",
		"AGW", "ROLE", "ADDONROLE"} {
		ts.Setenv(name, string(built(name)))
	}
}

// build builds a cluster of three nodes: nodes in 10.243.0.0/16, pods of a pod subnet in
// 10.242.0.0/16.
func (a *azureOf) build(plugin string) error {
	type object = map[string]any
	at := func(properties object) object {
		return object{"location": "westeurope", "properties": properties}
	}
	link := func(id arm.ID) object { return object{"id": string(id)} }
	group, identity := built("C1").Group(), arm.ResourceID(emulator.DefaultSubscription, "c1-rg",
		"Microsoft.ManagedIdentity/userAssignedIdentities", "c1-id")
	nodes := object{"addressPrefix": "10.243.0.0/16"}
	gateway := object{"addressPrefix": "10.241.0.0/24"}
	pool := object{"name": "np", "mode": "System", "count": 3,
		"vnetSubnetID": string(built("C1NODES"))}
	profile := object{"networkPlugin": "azure", "serviceCidr": "172.16.0.0/16",
		"dnsServiceIP": "172.16.0.10"}
	switch plugin {
	case "kubenet":
		nodes["routeTable"], gateway["routeTable"] = link(built("C1TABLE")),
			link(built("C1GWTABLE"))
		profile["networkPlugin"], profile["podCidr"] = "kubenet", "10.250.0.0/16"
	case "overlay":
		profile["networkPluginMode"], profile["podCidr"] = "overlay", "10.250.0.0/16"
	case "pod-subnet", "pod-subnet-static":
		pool["podSubnetID"] = string(built("C1PODS"))
		if plugin == "pod-subnet-static" {
			pool["podIPAllocationMode"] = "StaticBlock"
		}
	case "node-subnet":
	default:
		return fmt.Errorf("no plugin %q", plugin)
	}
	for _, step := range []struct {
		id      arm.ID
		version string
		body    object
	}{
		{group, "2024-03-01", at(nil)},
		{built("C1TABLE"), verifyNetwork, at(object{"routes": []any{}})},
		{built("C1GWTABLE"), verifyNetwork, at(object{"routes": []any{}})},
		{built("VNET"), verifyNetwork, at(object{
			"addressSpace": object{"addressPrefixes": []any{"10.241.0.0/16", "10.242.0.0/16",
				"10.243.0.0/16"}},
			"subnets": []any{object{"name": "nodes", "properties": nodes},
				object{"name": "appgw", "properties": gateway},
				object{"name": "pods", "properties": object{"addressPrefix": "10.242.0.0/16"}}},
		})},
		{built("AGW"), verifyNetwork, at(object{
			"sku": object{"name": "Standard_v2", "tier": "Standard_v2"},
			"gatewayIPConfigurations": []any{
				object{"name": "main", "properties": object{"subnet": link(built("C1GW"))}}},
		})},
		{identity, "2024-11-30", at(nil)},
	} {
		if err := a.op.Put(step.id, step.version, step.body); err != nil {
			return err
		}
	}
	who, err := a.op.Get(identity, "2024-11-30")
	if err != nil {
		return err
	}
	if err := a.op.Put(built("ROLE"), "2022-04-01", object{"properties": object{
		"roleDefinitionId": "/providers/Microsoft.Authorization/roleDefinitions/4d97b98b-1d4f-4787-a291-c67834d212e7",
		"principalId":      who["properties"].(object)["principalId"],
		"principalType":    "ServicePrincipal",
	}}); err != nil {
		return err
	}
	if err := a.op.Put(built("C1"), verifyAKS, object{
		"location": "westeurope",
		"identity": object{"type": "UserAssigned", "userAssignedIdentities": object{
			string(identity): object{}}},
		"properties": object{
			"networkProfile": profile, "agentPoolProfiles": []any{pool},
			"addonProfiles": object{"ingressApplicationGateway": object{"enabled": true,
				"config": object{"applicationGatewayId": string(built("AGW"))}}},
		},
	}); err != nil {
		return err
	}
	if err := a.settled(plugin); err != nil {
		return err
	}
	cluster, err := a.op.Get(built("C1"), verifyAKS)
	if err != nil {
		return err
	}
	text, err := json.Marshal(cluster)
	if err != nil {
		return err
	}
	addon := gjson.GetBytes(text,
		"properties.addonProfiles.ingressApplicationGateway.identity.objectId").String()
	return a.op.Put(built("ADDONROLE"), "2022-04-01", object{"properties": object{
		"roleDefinitionId": "/providers/Microsoft.Authorization/roleDefinitions/b24988ac-6180-42a0-ab88-20f7382dd24c",
		"principalId":      addon, "principalType": "ServicePrincipal",
	}})
}

// settled waits until the cluster exists and has its routes.
func (a *azureOf) settled(plugin string) error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		_, body := a.op.Do("GET", built("C1"), verifyAKS, nil)
		state := gjson.GetBytes(body, "properties.provisioningState").String()
		routes, err := a.routes(built("C1TABLE"))
		if err != nil || state == "Succeeded" && (plugin != "kubenet" || len(routes) == 3) {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the cluster is %s and has %d routes", state, len(routes))
		}
	}
}

func scriptARM(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 2 && args[0] == "STRIP" {
		ts.Check(running.get(ts.Getenv("WORK")).strip(arm.ID(args[1])))
		return
	}
	if len(args) < 2 || len(args) != 2 && args[0] == "DELETE" {
		ts.Fatalf("usage: arm DELETE|STRIP ID, arm GET|POST ID [REGEXP], arm PUT ID FILE")
	}
	op, id, version := running.get(ts.Getenv("WORK")).op, arm.ID(args[1]), verifyNetwork
	switch {
	case id.Is(arm.TypeCluster):
		version = verifyAKS
	case !strings.HasPrefix(id.Type(), "Microsoft.Network/"):
		version = "2022-04-01"
	}
	switch args[0] {
	case "PUT":
		status, body := op.Do("PUT", id, version, []byte(ts.ReadFile(args[2])))
		if (status/100 == 2) == neg {
			ts.Fatalf("%d %s", status, body)
		}
		if neg {
			fmt.Fprintln(ts.Stdout(), status, string(body))
		}
		return
	case "GET", "POST":
		status, body := op.Do(args[0], id, version, nil)
		for deadline := time.Now().Add(time.Minute); len(args) > 2 &&
			!regexp.MustCompile(args[2]).Match(body); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				ts.Fatalf("still after a minute: %d %s", status, body)
			}
			status, body = op.Do(args[0], id, version, nil)
		}
		fmt.Fprintln(ts.Stdout(), status, volatileBytes.ReplaceAllString(string(body), ""))
		return
	}
	if status, body := op.Do("DELETE", id, version, nil); status/100 != 2 {
		ts.Fatalf("%d %s", status, body)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if status, _ := op.Do("GET", id, version, nil); status == 404 {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s is still there", id)
		}
	}
}

var (
	kubeServer = regexp.MustCompile(`server: (\S+)`)
	kubeToken  = regexp.MustCompile(`token: (\S+)`)
)

func scriptSaved(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: saved NODES PODS")
	}
	config := writeKubeconfig(ts, built("C1"), filepath.Join(ts.Getenv("WORK"), "c1-kube.yaml"))
	ca, err := os.ReadFile(filepath.Join(ts.Getenv("AZ"), "ca.pem"))
	ts.Check(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	for i, list := range []string{"nodes", "pods"} {
		r, err := http.NewRequest(http.MethodGet, kubeServer.FindStringSubmatch(config)[1]+
			"/api/v1/"+list, nil)
		ts.Check(err)
		r.Header.Set("Authorization", "Bearer "+kubeToken.FindStringSubmatch(config)[1])
		answer, err := client.Do(r)
		ts.Check(err)
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		ts.Check(err)
		if answer.StatusCode != 200 {
			ts.Fatalf("%d %s", answer.StatusCode, body)
		}
		ts.Check(os.WriteFile(ts.MkAbs(args[i]), body, 0o600))
	}
}
