package emulator

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// clusterWith is a cluster with more properties, and more fields of its pool.
func clusterWith(properties, pool string) string {
	return strings.Replace(clusterBody("", pool), `"properties":{`, `"properties":{`+properties, 1)
}

// TestClusterKeeps: a PUT of a cluster keeps what it leaves out.
func TestClusterKeeps(t *testing.T) {
	b := withNetwork(t, Options{})
	b.put(aksID, clusterWith(`"storageProfile":{"blobCSIDriver":{"enabled":true}},`+
		`"securityProfile":{"azureKeyVaultKms":{"enabled":true,"keyId":"https://k/keys/x/1"}},`,
		""))
	b.put(aksID, clusterWith(`"storageProfile":{},`, ""))
	p := b.properties(aksID)
	if kernel.ObjectAt(p, "storageProfile", "blobCSIDriver")["enabled"] != true {
		t.Errorf("storageProfile %v", p["storageProfile"])
	}
	// Azure Key Vault's network access has a documented default.
	if kms := kernel.ObjectAt(p, "securityProfile",
		"azureKeyVaultKms"); kms["keyVaultNetworkAccess"] != "Public" {
		t.Errorf("securityProfile %v", p["securityProfile"])
	}
}

// TestSecrets: no answer has a secret that a client has sent.
func TestSecrets(t *testing.T) {
	b := withNetwork(t, Options{})
	b.put(aksID, clusterWith(`"servicePrincipalProfile":{"clientId":"x","secret":"hush"},`+
		`"windowsProfile":{"adminUsername":"u","adminPassword":"hush"},`+
		`"aadProfile":{"serverAppID":"x","serverAppSecret":"hush"},`, ""))
	if status, _ := b.try(http.MethodPost, aksID+"/resetServicePrincipalProfile", api,
		`{"clientId":"x","secret":"hush"}`); status != 200 {
		t.Error(status)
	}
	b.put(machines, strings.Replace(scaleSet("Standard_D2_v2", "null", 1),
		`"virtualMachineProfile":{`, `"virtualMachineProfile":{"extensionProfile":{"extensions":`+
			`[{"name":"e","properties":{"publisher":"p","protectedSettings":{"key":"hush"}}}]},`,
		1))
	for _, id := range []arm.ID{aksID, machines, machines + "/virtualMachines"} {
		if doc := string(kernel.Encode(b.get(id))); strings.Contains(doc, "hush") {
			t.Errorf("%s shows a secret: %s", id, doc)
		}
	}
}

// TestAddonIdentities: AKS creates an identity for the virtual nodes' add-on, too.
func TestAddonIdentities(t *testing.T) {
	b := withNetwork(t, Options{})
	b.put(aksID, clusterWith(`"addonProfiles":{"aciConnectorLinux":{"enabled":true}},`, ""))
	own := kernel.ObjectAt(b.properties(aksID), "addonProfiles", "aciConnectorLinux", "identity")
	if id := arm.ID(kernel.Text(own, "resourceId")); id.Name() != "aciconnectorlinux-c" ||
		b.properties(id)["clientId"] != own["clientId"] {
		t.Errorf("%v", own)
	}
}

// TestAutoScalerProfile: a cluster with a pool that scales by itself shows all settings.
func TestAutoScalerProfile(t *testing.T) {
	b := withNetwork(t, Options{})
	b.put(aksID, clusterBody("", ""))
	if p := b.properties(aksID); p["autoScalerProfile"] != nil {
		t.Errorf("no pool scales: %v", p["autoScalerProfile"])
	}
	b.put(aksID, clusterWith(`"autoScalerProfile":{"scan-interval":"30s"},`,
		`,"enableAutoScaling":true,"minCount":1,"maxCount":3`))
	p := kernel.ObjectAt(b.properties(aksID), "autoScalerProfile")
	if len(p) != 20 || p["scan-interval"] != "30s" || p["scale-down-unready-time"] != "20m" {
		t.Errorf("autoScalerProfile %v", p)
	}
}

// TestDirectWithoutProxy: what AKS reaches without its HTTP proxy.
func TestDirectWithoutProxy(t *testing.T) {
	b := withNetwork(t, Options{})
	const direct = "10.0.0.0/16 10.244.0.0/16 127.0.0.1 168.63.129.16 169.254.169.254 " +
		"172.16.0.0/16 FQDN konnectivity localhost x.example"
	for asOf, own := range map[string]string{"": "x.example", "2023-06-01": direct} {
		id := aksID + arm.ID(asOf)
		b.putAsOf(id, api, asOf, clusterWith(`"httpProxyConfig":{"httpProxy":"http://p:3128/",`+
			`"noProxy":["x.example"],"effectiveNoProxy":["sent back"]},`, ""))
		p := b.properties(id)
		for field, want := range map[string]string{"effectiveNoProxy": direct, "noProxy": own} {
			want = strings.ReplaceAll(want, "FQDN", kernel.Text(p, "fqdn"))
			if got := strings.Join(kernel.List(p, "httpProxyConfig", field), " "); got != want {
				t.Errorf("as of %q, %s is\n%s, want\n%s", asOf, field, got, want)
			}
		}
	}
}

// TestDualStackServices: a cluster of both families has a service CIDR of each.
func TestDualStackServices(t *testing.T) {
	b := newBench(t, Options{})
	b.put(aksID, `{"location":"westeurope","properties":{"networkProfile":{"ipFamilies":["IPv4",`+
		`"IPv6"]},"agentPoolProfiles":[{"name":"np","mode":"System"}]}}`)
	if cidrs := kernel.List(b.properties(aksID), "networkProfile",
		"serviceCidrs"); len(cidrs) != 2 || !strings.Contains(cidrs[1], "::/108") {
		t.Errorf("serviceCidrs %v", cidrs)
	}
}

// TestClusterRenewals: a cluster's certificates, keys and login can be replaced, one after another.
func TestClusterRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := withNetwork(t, Options{OperationTime: time.Minute})
		time.Sleep(time.Minute)
		b.put(aksID, clusterBody("", ""))
		time.Sleep(time.Minute)
		for action, body := range map[string]string{"rotateClusterCertificates": "",
			"rotateServiceAccountSigningKeys": "", "resetServicePrincipalProfile": `{"clientId":"x",` +
				`"secret":"y"}`, "resetAADProfile": `{"managed":true}`} {
			url := string(aksID) + "/" + action + "?api-version=" + api
			status, header, _ := b.call(http.MethodPost, url, body)
			if status != 202 || header.Get("Location") == "" || b.state() != "Updating" {
				t.Errorf("%s: %d %v, %s", action, status, header, b.state())
			}
			if status, _, doc := b.call(http.MethodPost, url, body); status != 409 {
				t.Errorf("%s again: %d %v", action, status, doc)
			}
			time.Sleep(time.Minute)
		}
		p := b.properties(aksID)
		if got := fmt.Sprint(kernel.ObjectAt(p, "servicePrincipalProfile")["clientId"], " ",
			kernel.ObjectAt(p, "aadProfile")["managed"]); got != "x true" {
			t.Error(got)
		}
	})
}

// TestTrustedAccess: a binding of a cluster is made by an operation.
func TestTrustedAccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := withNetwork(t, Options{OperationTime: time.Minute})
		time.Sleep(time.Minute)
		b.put(aksID, clusterBody("", ""))
		time.Sleep(time.Minute)
		status, header, doc := b.putAsOf(aksID.Child("trustedAccessRoleBindings", "b"), api,
			"", `{"properties":{"roles":["r"],"sourceResourceId":"`+string(vnet)+`"}}`)
		if p := kernel.ObjectAt(doc, "properties"); status != 201 ||
			header.Get("Azure-AsyncOperation") == "" || header.Get("Retry-After") != "" ||
			p["provisioningState"] != "Updating" || doc["etag"] != nil {
			t.Errorf("%d %v %v", status, header, doc)
		}
	})
}

// TestPoolMachines: the machines of a pool are those of its scale set.
func TestPoolMachines(t *testing.T) {
	b := withNetwork(t, Options{})
	b.put(aksID, clusterBody("", `,"count":2`))
	machines := kernel.ListAt(b.get(aksID.Child("agentPools", "np")+"/machines"), "value")
	if len(machines) != 2 {
		t.Fatalf("%v", machines)
	}
	vm := b.get(arm.ID(kernel.Text(machines[1], "properties", "resourceId")))
	if kernel.Text(vm, "properties", "osProfile", "computerName") !=
		kernel.Text(machines[1], "name") {
		t.Errorf("%v is %v", machines[1], vm)
	}
}
