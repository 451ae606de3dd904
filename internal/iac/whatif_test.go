package iac

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/iac/armtemplate"
)

func whatIfFile(t *testing.T, changes ...string) File {
	t.Helper()
	data, err := os.ReadFile("testdata/whatif/modify.json")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			t.Fatalf("there is no %q", changes[i])
		}
		text = strings.Replace(text, changes[i], changes[i+1], 1)
	}
	return File{"whatif.json", []byte(text)}
}

func readWhatIf(t *testing.T, f File) *Reading {
	t.Helper()
	if !IsWhatIf(f.Data) || is(f.Data, armtemplate.IsTemplate) || IsParameters(f.Data) {
		t.Error("it is not recognised")
	}
	r, err := ReadWhatIf(f)
	if err != nil {
		t.Fatal(err)
	}
	hostile(f.Data, func(data []byte) (*Reading, error) { return ReadWhatIf(File{f.Name, data}) })
	return r
}

const whatIfTable = "/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/shop-rg/providers/Microsoft.Network/routeTables/"

func TestWhatIf(t *testing.T) {
	r := readWhatIf(t, whatIfFile(t))
	sameLines(t, "modify", said(r), "loses shop-vnet/aks-nodes 0", "another shop-vnet/appgw 0",
		"recreated shop-vnet/old 0", "routes-gone shop-rt 0")
	if e := r.Effects[0]; e.Before != whatIfTable+"shop-rt" ||
		!strings.Contains(e.Fix, whatIfTable+"shop-rt") {
		t.Errorf("%+v", e)
	}
	if e := r.Effects[3]; len(e.Routes) != 2 || e.Routes[0].Prefix.String() != "10.244.0.0/24" ||
		e.Routes[0].Hop.String() != "10.20.0.4" {
		t.Errorf("%+v", e)
	}
	if f := r.Findings(Known{}); f[0].Code != finding.IaCStrips && f[0].Code != finding.IaCRoutes ||
		f[0].Severity != finding.Error {
		t.Errorf("%+v", f)
	}
	nodes := r.After.Subnet(arm.ID(strings.Replace(whatIfTable, "routeTables/",
		"virtualNetworks/shop-vnet/subnets/aks-nodes", 1)))
	if nodes == nil || nodes.RouteTable != "" || len(nodes.Prefixes) != 1 ||
		len(r.After.Clusters) != 1 {
		t.Errorf("after: %+v", nodes)
	}
}

func TestWhatIfNoise(t *testing.T) {
	const subnets = `"subnets": [
            {"name": "aks-nodes", "properties": {"addressPrefix": "10.20.0.0/22", "privateEndpointNetworkPolicies": "Disabled"}},
            {"name": "appgw", "properties": {"addressPrefix": "10.20.8.0/24", "routeTable": {"id": "` + whatIfTable + `other-rt"}}},
            {"name": "jump", "properties": {"addressPrefix": "10.20.9.0/24"}}
          ]`
	const rest = "routes-gone shop-rt 0"
	// Subnets that the template does not list stay, whatever what-if shows:
	// Azure/arm-template-whatif#393, #439.
	r := readWhatIf(t, whatIfFile(t, subnets, `"x": 1`))
	sameLines(t, "no subnets listed", said(r), rest)
	if len(r.After.Subnets) != 4 {
		t.Errorf("after: %v", r.After.Subnets)
	}
	// Before 2023-09-01 they are deleted.
	r = readWhatIf(t, whatIfFile(t, subnets, `"x": 1`, `"apiVersion": "2024-05-01"`,
		`"apiVersion": "2023-06-01"`))
	sameLines(t, "old api-version", said(r), "recreated shop-vnet/aks-nodes 0",
		"recreated shop-vnet/appgw 0", "recreated shop-vnet/jump 0", "recreated shop-vnet/old 0",
		rest)
	r = readWhatIf(t, whatIfFile(t, subnets, `"x": 1`, `"apiVersion": "2024-05-01"`, `"y": 1`))
	sameLines(t, "no api-version", said(r), rest, "? what-if shows its subnets as removed. "+
		"Before api-version 2023-09-01 they are removed, and from it on they stay; the result "+
		"does not show the api-version")
	// The same table in another spelling is the same, null and "" mean none, and an expression is
	// unknown.
	for table, want := range map[string]string{
		`"routeTable": {"id": "` + strings.ToUpper(whatIfTable+"shop-rt") + `"}`: "",
		`"routeTable": null`:       "loses shop-vnet/aks-nodes 0",
		`"routeTable": {"id": ""}`: "loses shop-vnet/aks-nodes 0",
		`"routeTable": "[if(parameters('x'), reference('y').outputs.z.value, null())]"`: "may-lose shop-vnet/aks-nodes 0",
		`"routeTable": {"id": "[reference('y').outputs.z.value]"}`:                      "may-lose shop-vnet/aks-nodes 0",
	} {
		r := readWhatIf(t, whatIfFile(t, `"privateEndpointNetworkPolicies": "Disabled"`, table))
		got := said(r)
		if want == "" {
			want = "another shop-vnet/appgw 0"
		}
		if len(got) == 0 || got[0] != want {
			t.Errorf("%s: %v, want %s first", table, got, want)
		}
	}
}

// TestWhatIfWrongID: a network whose ID is none does not disappear from the result.
func TestWhatIfWrongID(t *testing.T) {
	network := strings.Replace(whatIfTable, "routeTables/", "virtualNetworks/shop", 1)
	r := readWhatIf(t, whatIfFile(t, `"resourceId": "`+network, `"resourceId": "`+network+`\u001b`))
	if len(r.Notes) != 1 || !r.Notes[0].Unknown || !strings.HasPrefix(r.Notes[0].Text,
		"its change is not checked, because its ID is wrong: ") {
		t.Errorf("%+v", r.Notes)
	}
}

func TestWhatIfOtherChanges(t *testing.T) {
	id := strings.Replace(whatIfTable, "routeTables/", "virtualNetworks/v", 1)
	change := func(id, kind, rest string) string {
		return fmt.Sprintf(`{"resourceId": %q, "changeType": %q%s}`, id, kind, rest)
	}
	with := `{"apiVersion": "2024-05-01", "properties": {"addressPrefix": "10.0.0.0/24", "routeTable": {"id": "` + whatIfTable + `a"}}}`
	without := `{"apiVersion": "2024-05-01", "properties": {"addressPrefix": "10.0.0.0/24"}}`
	vnet := func(subnet string) string {
		return `{"apiVersion": "2024-05-01", "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}, "subnets": [` + strings.Replace(subnet, `{`, `{"name": "s", `, 1) + `]}}`
	}
	for name, tt := range map[string]struct {
		changes []string
		want    []string
	}{
		"a separate subnet": {
			[]string{change(id+"/subnets/s", "Modify", `, "before": `+with+`, "after": `+without)},
			[]string{"loses v/s 0"}},
		"a new network": {
			[]string{change(id, "Create", `, "before": null, "after": `+vnet(without))}, nil},
		"nothing": {
			[]string{change(id, "NoChange", `, "before": `+vnet(with)+`, "after": `+vnet(with))},
			nil},
		"a whole network goes": {[]string{change(id, "Delete", `, "before": `+vnet(with)),
			change(id+"/subnets/s", "Delete", `, "before": `+with)}, nil},
		"a cluster goes": {
			[]string{change("/subscriptions/s/resourceGroups/g/providers/Microsoft.ContainerService/managedClusters/shop", "Delete", `, "before": {}`)}, []string{"destroyed shop 0"}},
		"a subnet goes": {
			[]string{change(id+"/subnets/s", "Delete", `, "before": `+with)}, []string{
				"recreated v/s 0"}},
		"network and subnet": {
			[]string{change(id, "Modify", `, "before": `+vnet(with)+`, "after": `+vnet(without)),
				change(id+"/subnets/s", "NoChange", `, "before": `+with+`, "after": `+with)},
			[]string{"flaps v/s 0"}},
		"unsupported": {
			[]string{change(id, "Unsupported", `, "unsupportedReason": "it has reference()"`)},
			[]string{"? what-if cannot say what happens to it: it has reference()"}},
		"unsupported, with an expression for its ID": {
			[]string{change("[resourceId('Microsoft.Network/virtualNetworks/subnets', 'v', 's')]",
				"Unsupported", `, "unsupportedReason": "it has reference()"`)},
			[]string{"? what-if cannot say what happens to [resourceId('Microsoft.Network/" +
				"virtualNetworks/subnets', 'v', 's')]: it has reference()"}},
		"something else with an expression for its ID": {
			[]string{change("[resourceId('Microsoft.KeyVault/vaults', 'v')]", "Unsupported", "")},
			nil},
		"IDs only": {[]string{change(id, "Deploy", ``)},
			[]string{"? it is deployed, and the result does not say what changes: make it with " +
				"--result-format FullResourcePayloads"}},
		"something else, not seen": {
			[]string{change(strings.Replace(whatIfTable, "routeTables/", "publicIPAddresses/p", 1),
				"Unsupported", ``)}, nil},
	} {
		text := `{"status": "Succeeded", "changes": [` + strings.Join(tt.changes, ",") + `]}`
		sameLines(t, name, said(readWhatIf(t, File{"w", []byte(text)})), tt.want...)
		// As the REST operation answers.
		text = `{"status": "Succeeded", "properties": {"changes": [` +
			strings.Join(tt.changes, ",") + `]}}`
		sameLines(t, name+" (REST)", said(readWhatIf(t, File{"w", []byte(text)})), tt.want...)
	}
	r := readWhatIf(t,
		File{"w", []byte(`{"status": "Failed", "error": {"code": "InvalidTemplate", "message": "no"}, "changes": [], "diagnostics": [{"level": "Warning", "code": "NestedDeploymentShortCircuited", "message": "m"}]}`)})
	sameLines(t, "troubles", said(r), "? what-if itself failed: InvalidTemplate no",
		"? what-if did not see everything: NestedDeploymentShortCircuited m")
}

// TestPowerShellWhatIf: ConvertTo-Json writes other names, and the kind of a change as a number or
// with -EnumsAsStrings by its name.
func TestPowerShellWhatIf(t *testing.T) {
	az := string(whatIfFile(t).Data)
	for _, kinds := range [][]string{{`"Modify"`, "5", `"NoChange"`, "4", `"Create"`, "0",
		`"Delete"`, "1", `"Ignore"`, "2"}, nil} {
		text := strings.NewReplacer(append(kinds, `"status"`, `"Status"`, `"changes"`, `"Changes"`,
			`"changeType"`, `"ChangeType"`, `"resourceId"`, `"FullyQualifiedResourceId"`,
			`"before"`, `"Before"`, `"after"`, `"After"`)...).Replace(az)
		r, err := readPlain("whatif.json", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		sameLines(t, "PowerShell", said(r), said(readWhatIf(t, File{"w", []byte(az)}))...)
	}
}
