package generate

import (
	"strings"
	"testing"
	"testing/fstest"

	"routekeeper.dev/routekeeper/internal/iac"
	"routekeeper.dev/routekeeper/internal/iac/armtemplate"
)

// TestCheckFindsNothing: iac check finds nothing in the generated code in any language, even if
// every subnet is known to carry pods. Bicep is checked as the test's reader parses it.
func TestCheckFindsNothing(t *testing.T) {
	for _, c := range orders(t) {
		if c.cluster == nil {
			continue
		}
		var carriers []iac.Carrier
		for _, name := range []string{"nodes", "pods", "gateway"} {
			carriers = append(carriers,
				iac.Carrier{Place: iac.Place{Name: name}, Why: "a test names it", Named: true})
		}
		where := armtemplate.Options{Subscription: c.cluster.Subscription,
			ResourceGroup: c.cluster.Group,
			Location:      c.cluster.Location}
		b := c.writer.(Blueprint)
		for what, text := range map[string][]byte{"ARM JSON": armOf(t, b), "Bicep": bicepOf(t, b)} {
			parameters := iac.File{Name: "main.parameters.json", Data: []byte(parametersOf(c))}
			r, err := iac.ReadTemplate(iac.File{Name: "main.json", Data: text},
				iac.TemplateOptions{Where: where, Carriers: carriers,
					Parameters: []iac.File{parameters}})
			if err != nil {
				t.Fatalf("%s as %s: %v", c.name, what, err)
			}
			nothing(t, c.name+" as "+what, r)
		}
		folder := fstest.MapFS{}
		for _, f := range written(t, "terraform", c) {
			folder["code/"+f.Name] = &fstest.MapFile{Data: f.Text}
		}
		source, err := iac.ReadSource(folder, "code")
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		nothing(t, c.name+" as Terraform", source.Reading())
	}
}

// parametersOf are values for the parameters that have none.
func parametersOf(c order) string {
	var values []string
	if strings.HasSuffix(c.name, string(HostAKS)) ||
		strings.HasSuffix(c.name, string(HostContainerApps)) {
		values = append(values, `"image": {"value": "`+given["image"]+`"}`)
	}
	if strings.HasSuffix(c.name, string(HostContainerApps)) {
		values = append(values, `"eventSecret": {"value": "`+given["event_secret"]+`"}`)
	}
	return `{"$schema": "https://schema.management.azure.com/schemas/2019-04-01/deploymentParameters.json#", ` +
		`"contentVersion": "1.0.0.0", "parameters": {` + strings.Join(values, ", ") + `}}`
}

func nothing(t *testing.T, what string, r *iac.Reading) {
	t.Helper()
	var known iac.Known
	known.Carriers = r.Carriers
	for _, f := range r.Findings(known) {
		t.Errorf("%s: %s %s", what, f.Code, f.Message)
	}
}
