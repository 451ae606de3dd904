package generate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/finding/pastetest"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/prevent"
)

const policyGroup = arm.ID("/subscriptions/" + emulator.DefaultSubscription + "/resourceGroups/net")

var (
	policyVNet  = arm.ResourceID(emulator.DefaultSubscription, "net", arm.TypeVNet, "hub")
	policyTable = arm.ResourceID(emulator.DefaultSubscription, "net", arm.TypeRouteTable, "egress")
	policyNSG   = arm.ResourceID(emulator.DefaultSubscription, "net", arm.TypeSecurityGroup, "nsg")
)

// policyAliases has all aliases, also what the emulator lacks: so the golden files have each rule.
func policyAliases() (all []string) {
	for _, property := range inventory.Properties {
		all = append(all, arm.TypeVNet+"/subnets[*]."+string(property)+".id",
			arm.TypeSubnet+"/"+string(property)+".id")
	}
	return append(all, arm.TypeVNet+"/subnets[*]", arm.TypeVNet+"/subnets[*].name",
		arm.TypeRouteTable+"/routes[*]", arm.TypeRouteTable+"/routes[*].addressPrefix",
		arm.TypeRoute+"/addressPrefix")
}

func need(subnet arm.ID, property inventory.Property, value arm.ID) prevent.Need {
	return prevent.Need{Subnet: subnet, Property: property, Value: value}
}

func policiesOf(t testing.TB, needs []prevent.Need, tables ...arm.ID) Policies {
	t.Helper()
	rules, left := prevent.Make(needs, tables, policyAliases())
	if len(left) > 0 {
		t.Fatal(left)
	}
	return Policies{emulator.DefaultSubscription, rules}
}

// TestPolicyGolden: the code equals the golden files, is formatted, and fits both versions of the
// provider. The JSON in it is valid.
func TestPolicyGolden(t *testing.T) {
	nodes := policyVNet.Child("subnets", "nodes")
	p := policiesOf(t, []prevent.Need{need(nodes, inventory.PropertyTable, policyTable),
		need(nodes, inventory.PropertyNAT, arm.ResourceID(emulator.DefaultSubscription, "net",
			arm.TypeNATGateway, "nat")),
		need(nodes, inventory.PropertyGroup, policyNSG),
		need(policyVNet.Child("subnets", "pods"), inventory.PropertyTable, policyTable)},
		policyTable)
	e := Exemption{policyVNet, time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC),
		p.Rules[0].Assignments()}
	for name, write := range map[string]func() ([]Output, error){
		"terraform": p.Terraform, "bicep": p.Bicep, "arm": p.ARM, "az": p.AZ,
		"terraform-exempt": e.Terraform, "bicep-exempt": e.Bicep, "arm-exempt": e.ARM,
		"az-exempt": e.AZ,
	} {
		files, err := write()
		if err != nil || len(files) != 1 {
			t.Fatal(err, files)
		}
		language, _, _ := strings.Cut(name, "-")
		text := files[0].Text
		if language == "arm" && !json.Valid(text) {
			t.Errorf("%s is not JSON", name)
		}
		if language == "terraform" {
			if !bytes.Equal(text, hclwrite.Format(text)) {
				t.Errorf("%s is not formatted", name)
			}
			config, err := parse(files)
			if err != nil {
				t.Fatal(err)
			}
			for _, version := range []int{4, 5} {
				for _, m := range config.mistakes(loadProvider(t, version)) {
					t.Errorf("%s, version %d: %s", name, version, m)
				}
			}
			for _, part := range strings.Split(string(text), "<<-JSON")[1:] {
				if part, _, _ = strings.Cut(part, "\n  JSON\n"); !json.Valid([]byte(part)) {
					t.Errorf("%s has no JSON: %s", name, part)
				}
			}
		}
		path := filepath.Join("testdata", "golden", language, "policy", files[0].Name)
		if strings.HasSuffix(name, "-exempt") {
			path = filepath.Join("testdata", "golden", language, "policy-exempt", files[0].Name)
		}
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
		} else if want = bytes.ReplaceAll(want, []byte("\r\n"), []byte("\n")); !bytes.Equal(text,
			want) {
			t.Errorf("%s is not what is written now: go test ./internal/iac/generate -run "+
				"PolicyGolden -update\n%s", path, text)
		}
	}
}

// TestPastedPolicies: names with anything in them.
func TestPastedPolicies(t *testing.T) {
	for _, rename := range pastetest.Names() {
		vnet := arm.ID("/subscriptions/" + rename("s") + "/resourceGroups/" + rename("g") +
			"/providers/" + arm.TypeVNet + "/" + rename("v"))
		needs := []prevent.Need{need(vnet.Child("subnets", rename("n")), inventory.PropertyTable,
			arm.ID(rename("t")))}
		rules, _ := prevent.Make(needs, nil, policyAliases())
		p := Policies{rename("s"), rules}
		e := Exemption{vnet, time.Time{}, rules[0].Assignments()}
		for _, write := range []func() ([]Output, error){p.AZ, p.ARM, p.Bicep, p.Terraform, e.AZ,
			e.ARM, e.Bicep, e.Terraform} {
			if _, err := write(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestPoliciesDeployed deploys the policies as ARM JSON. The emulator then refuses what strips a
// guarded subnet, whatever writes it, and nothing else. An exemption frees one network for a time.
func TestPoliciesDeployed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := emulatortest.New(t, emulator.Options{})
		op, err := e.Client(emulatortest.Operator)
		if err != nil {
			t.Fatal(err)
		}
		const version = "2025-05-01"
		var judges []prevent.Rule // what judges the past must agree
		try := func(id arm.ID, body string) (int, string) {
			status, answer := op.Do(http.MethodPut, id, version, json.RawMessage(body))
			time.Sleep(10 * time.Minute)
			if lacks, _ := prevent.Refused(judges, id, []byte(body)); (len(lacks) > 0) !=
				(status == 403) {
				t.Errorf("PUT %s: %d, but it lacks %q\n%s", id.Short(), status, lacks, body)
			}
			return status, gjson.GetBytes(answer, "error.code").String()
		}
		passes := func(id arm.ID, body string) {
			t.Helper()
			if status, code := try(id, body); status >= 300 {
				t.Errorf("PUT %s: %d %s\n%s", id.Short(), status, code, body)
			}
		}
		refused := func(id arm.ID, body string) {
			t.Helper()
			if status, code := try(id, body); status != 403 || code != "RequestDisallowedByPolicy" {
				t.Errorf("PUT %s: %d %s, expected a refusal\n%s", id.Short(), status, code, body)
			}
		}
		subnet := func(n int, table, group arm.ID) string {
			more := ""
			if table != "" {
				more += fmt.Sprintf(`,"routeTable":{"id":%q}`, table)
			}
			if group != "" {
				more += fmt.Sprintf(`,"networkSecurityGroup":{"id":%q}`, group)
			}
			return fmt.Sprintf(`"properties":{"addressPrefix":"10.0.%d.0/24"%s}`, n, more)
		}
		vnet := func(subnets ...string) string {
			list := ""
			if len(subnets) > 0 {
				list = `,"subnets":[` + strings.Join(subnets, ",") + `]`
			}
			return `{"location":"westeurope","properties":{"addressSpace":{"addressPrefixes":` +
				`["10.0.0.0/16"]}` + list + `}}`
		}
		named := func(name, properties string) string { return `{"name":"` + name + `",` + properties + `}` }
		const egress = `{"location":"westeurope","properties":{"routes":[{"name":"egress","properties":` +
			`{"addressPrefix":"0.0.0.0/0","nextHopType":"VirtualAppliance","nextHopIpAddress":"10.9.9.4"}}]}}`
		bare := `{"location":"westeurope"}`
		nodes, other := policyVNet.Child("subnets", "nodes"), policyVNet.Child("subnets", "other")
		otherTable := arm.ResourceID(emulator.DefaultSubscription, "net", arm.TypeRouteTable, "x")
		passes(policyGroup, bare)
		passes(policyTable, egress)
		passes(otherTable, bare)
		passes(policyNSG, bare)
		stripped := vnet(named("nodes", subnet(1, "", "")), named("other", subnet(2, "", "")))
		passes(policyVNet, stripped) // nothing is assigned yet

		upper := arm.ID(strings.ToUpper(string(policyTable)))
		p := policiesOf(t, []prevent.Need{need(nodes, inventory.PropertyTable, upper),
			need(nodes, inventory.PropertyGroup, policyNSG)}, policyTable)
		p.Rules = slices.DeleteFunc(p.Rules, func(r prevent.Rule) bool {
			return r.Property == inventory.PropertyNAT
		})
		deployPolicy := func(scope arm.ID, write func() ([]Output, error)) {
			t.Helper()
			files, err := write()
			if err != nil {
				t.Fatal(err)
			}
			id := scope + "/providers/" + typeDeployment + "/prevent"
			body := object{"properties": object{"mode": "Incremental",
				"template": json.RawMessage(files[0].Text)}}
			if scope.Group() == "" {
				body["location"] = "westeurope"
			}
			for range 2 { // again changes nothing
				if err := op.Put(id, versions[typeDeployment], body); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Minute)
				_, answer := op.Do(http.MethodGet, id, versions[typeDeployment], nil)
				if s := gjson.GetBytes(answer, "properties.provisioningState").String(); s !=
					"Succeeded" {
					t.Fatalf("%s", answer)
				}
			}
		}
		deployPolicy("/subscriptions/"+emulator.DefaultSubscription, p.ARM)
		judges = p.Rules

		refused(policyVNet, stripped)
		refused(nodes, "{"+subnet(1, "", "")+"}")
		refused(nodes, "{"+subnet(1, policyTable, "")+"}") // what azurerm's associations do first
		refused(nodes, "{"+subnet(1, otherTable, policyNSG)+"}")
		passes(policyVNet, vnet())
		passes(other, "{"+subnet(2, otherTable, "")+"}")
		passes(nodes, "{"+subnet(1, policyTable, policyNSG)+"}") // a repair
		passes(policyVNet, vnet(named("other", subnet(2, "", "")),
			named("nodes", subnet(1, policyTable, policyNSG))))
		refused(policyVNet, vnet(named("NODES", subnet(1, policyTable, ""))))

		refused(policyTable, bare)
		passes(policyTable, strings.Replace(egress, "10.9.9.4", "10.9.9.5", 1))
		passes(otherTable, bare)
		if status, _ := op.Do(http.MethodDelete, policyTable.Child("routes", "egress"), version,
			nil); status != 403 {
			t.Errorf("the default route is deleted: %d", status)
		}

		assignments := prevent.Concerning(p.Rules, policyVNet)
		if len(assignments) != 2 {
			t.Fatalf("%d assignments have the network", len(assignments))
		}
		until := time.Now().Add(3 * time.Hour)
		deployPolicy(policyGroup, Exemption{policyVNet, until, assignments}.ARM)
		judges = p.Rules[2:] // the network is exempt from the others
		passes(policyVNet, stripped)
		refused(policyTable, bare)
		judges = p.Rules
		time.Sleep(time.Until(until))
		refused(policyVNet, stripped)
	})
}
