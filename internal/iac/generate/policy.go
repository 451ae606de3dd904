package generate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/prevent"
)

const (
	typePolicy     = "Microsoft.Authorization/policyDefinitions"
	typeAssignment = "Microsoft.Authorization/policyAssignments"
	typeExemption  = "Microsoft.Authorization/policyExemptions"
)

// Policies are the policies of a subscription.
type Policies struct {
	Subscription string
	Rules        []prevent.Rule
}

// Exemption frees a network from assignments of the policies, until a time.
type Exemption struct {
	Network     arm.ID
	Until       time.Time
	Assignments []prevent.Assignment
}

// Expires returns the time as Azure Policy takes it (policy/concepts/exemption-structure).
func (e Exemption) Expires() string { return e.Until.UTC().Format("2006-01-02T15:04:05Z") }

// AssignmentID returns the ID of an assignment of the network's subscription.
func (e Exemption) AssignmentID(a prevent.Assignment) string {
	return "/subscriptions/" + e.Network.Subscription() + "/providers/" + typeAssignment + "/" +
		a.Name
}

// deployment describes the policies for Bicep and ARM JSON.
func (p Policies) deployment(file string) *deployment {
	d := &deployment{scope: "subscription", head: []string{
		"Policies that refuse to take from guarded subnets what they must have. Written by " +
			"routekeeper prevent.", "",
		"  " + finding.Command("az deployment sub create --subscription %s --location westeurope "+
			"--name routekeeper-prevent --template-file %s", p.Subscription, file).String()}}
	for _, r := range p.Rules {
		symbol := symbolOf(r.Name)
		d.nodes = append(d.nodes, &node{symbol: symbol, kind: typePolicy,
			version: versions[typePolicy], name: r.Name, body: []member{{"properties", object{
				"displayName": r.Title, "description": r.About, "mode": "All",
				"parameters": declared(r), "policyRule": policyRule(r),
			}}}})
		for _, a := range r.Assignments() {
			d.nodes = append(d.nodes, &node{symbol: symbolOf(a.Name) + "Assignment",
				kind: typeAssignment, version: versions[typeAssignment], name: a.Name,
				body: []member{{"properties", object{"displayName": r.Title,
					"description": r.About, "policyDefinitionId": mark("id", symbol),
					"parameters": arguments(a)}}}})
		}
	}
	return d
}

// policyRule, declared and arguments are the policyRule and the parameters of a definition, and the
// parameters of an assignment. The only action that denyAction can deny is a delete.
func policyRule(r prevent.Rule) object {
	then := object{"effect": r.Effect}
	if r.Effect == "denyAction" {
		then["details"] = object{"actionNames": []any{"delete"}}
	}
	return object{"if": r.Condition(), "then": then}
}

func declared(r prevent.Rule) object {
	name, about := r.Parameter()
	return object{name: object{"type": "Array", "metadata": object{"description": about}}}
}

func arguments(a prevent.Assignment) object {
	name, _ := a.Rule.Parameter()
	return object{name: object{"value": a.Value}}
}

// jsonText returns JSON, indented for a heredoc of HCL.
func jsonText(v any, indented bool) string {
	if !indented {
		return string(encode(v))
	}
	var text bytes.Buffer
	_ = json.Indent(&text, encode(v), "    ", "  ") // encode writes JSON
	return "    " + hclLiteral(text.String())
}

// symbolOf returns routeTable for routekeeper-route-table.
func symbolOf(name string) string {
	words := strings.Split(strings.TrimPrefix(name, "routekeeper-"), "-")
	for i := range words[1:] {
		words[i+1] = title(words[i+1])
	}
	return strings.Join(words, "")
}

// Bicep writes the policies as main.bicep, for a subscription.
func (p Policies) Bicep() ([]Output, error) { return p.deployment("main.bicep").bicep(), nil }

// ARM writes the policies as a template for a subscription.
func (p Policies) ARM() ([]Output, error) { return p.deployment("main.json").arm(), nil }

// Terraform writes the policies for the azurerm provider.
func (p Policies) Terraform() ([]Output, error) {
	return write("terraform/policy", []string{"policy.tf"}, p)
}

// AZ writes the policies as commands of the Azure CLI.
func (p Policies) AZ() ([]Output, error) {
	var b strings.Builder
	b.WriteString("# Policies that refuse to take from guarded subnets what they must have. " +
		"Written by\n# routekeeper prevent.\n")
	for _, r := range p.Rules {
		fmt.Fprintf(&b, "\n%s\n", finding.Command("az policy definition create --name %s "+
			"--subscription %s --mode All --display-name %s --description %s --rules %s "+
			"--params %s", r.Name, p.Subscription, r.Title, r.About, jsonText(policyRule(r), false),
			jsonText(declared(r), false)))
		for _, a := range r.Assignments() {
			fmt.Fprintf(&b, "%s\n", finding.Command("az policy assignment create --name %s "+
				"--scope %s --policy %s --display-name %s --params %s", a.Name,
				"/subscriptions/"+p.Subscription, "/subscriptions/"+p.Subscription+"/providers/"+
					typePolicy+"/"+r.Name, r.Title, jsonText(arguments(a), false)))
		}
	}
	return []Output{{"policy.sh", []byte(b.String())}}, nil
}

// deployment describes the exemptions for Bicep and ARM JSON.
func (e Exemption) deployment(file string) *deployment {
	network := &node{symbol: "network", kind: arm.TypeVNet, version: versions[arm.TypeVNet],
		name: e.Network.Name(), existing: true}
	d := &deployment{scope: "resourceGroup", nodes: []*node{network}, head: []string{
		"Exempts a network from the policies of routekeeper prevent until " + e.Expires() + ".", "",
		"  " + finding.Command("az deployment group create --subscription %s --resource-group %s "+
			"--name routekeeper-exempt --template-file %s", e.Network.Subscription(),
			e.Network.ResourceGroup(), file).String()}}
	for _, a := range e.Assignments {
		d.nodes = append(d.nodes, &node{symbol: symbolOf(a.Name), kind: typeExemption,
			version: versions[typeExemption], name: a.Name, on: network,
			body: []member{{"properties", object{"displayName": a.Rule.Title,
				"policyAssignmentId": e.AssignmentID(a), "exemptionCategory": "Waiver",
				"expiresOn": e.Expires()}}}})
	}
	return d
}

// Bicep writes the exemptions for the network's resource group.
func (e Exemption) Bicep() ([]Output, error) { return e.deployment("main.bicep").bicep(), nil }

// ARM writes the exemptions as a template for the network's resource group.
func (e Exemption) ARM() ([]Output, error) { return e.deployment("main.json").arm(), nil }

// Terraform writes the exemptions for the azurerm provider.
func (e Exemption) Terraform() ([]Output, error) {
	return write("terraform/policy", []string{"exemption.tf"}, e)
}

// AZ writes the exemptions as commands of the Azure CLI.
func (e Exemption) AZ() ([]Output, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "# Exempts a network from the policies of routekeeper prevent until %s.\n\n",
		e.Expires())
	for _, a := range e.Assignments {
		fmt.Fprintf(&b, "%s\n", finding.Command("az policy exemption create --name %s --scope %s "+
			"--policy-assignment %s --exemption-category Waiver --expires-on %s", a.Name, e.Network,
			e.AssignmentID(a), e.Expires()))
	}
	return []Output{{"exemption.sh", []byte(b.String())}}, nil
}
