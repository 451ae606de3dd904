package iac

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/iac/armtemplate"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// File is a file's name and content.
type File struct {
	Name string
	Data []byte
}

// TemplateOptions are the known facts about a template's deployment.
type TemplateOptions struct {
	// Scope of the deployment. Without it, IDs contain words in braces.
	Where armtemplate.Options
	// Parameters are parameter files; if two have a value, the later one wins.
	Parameters []File
	// Complete is set for --mode complete.
	Complete bool
	// Carriers are subnets that are known from elsewhere to carry pods. They lose a table for
	// certain.
	Carriers []Carrier
}

// IsParameters reports whether a file holds parameters for a template, or is a compiled
// .bicepparam.
func IsParameters(data []byte) bool { return is(data, armtemplate.IsParameters) }

func is(data []byte, kind func(any) bool) bool {
	v, err := armtemplate.Parse("", data)
	return err == nil && kind(v)
}

// ParametersFor returns the parameter files for a template: those named after it (main.json:
// main.parameters.json, main.prod.json), and those named after none of the files.
func ParametersFor(template string, names []string, parameters []File) []File {
	var out []File
	for _, p := range parameters {
		own := namedAfter(p.Name, template)
		if own || !slices.ContainsFunc(names, func(name string) bool {
			return namedAfter(p.Name, name)
		}) {
			out = append(out, p)
		}
	}
	return out
}

// namedAfter reports whether a parameter file is named after a template.
func namedAfter(parameters, template string) bool {
	stem, _, _ := strings.Cut(path.Base(slashed(template)), ".")
	return parameters != template && strings.HasPrefix(path.Base(slashed(parameters)), stem+".")
}

// slashed replaces Windows' backslashes with slashes.
func slashed(name string) string { return strings.ReplaceAll(name, `\`, "/") }

// ReadTemplate reads an ARM template. The error is one line, without the file's name unless it is
// about a parameter file.
func ReadTemplate(file File, o TemplateOptions) (*Reading, error) {
	t, err := evaluateTemplate(file, o)
	if err != nil {
		return nil, err
	}
	return t.reading, nil
}

func evaluateTemplate(file File, o TemplateOptions) (*armReading, error) {
	doc, err := armtemplate.Parse(file.Name, file.Data)
	if err != nil {
		return nil, err
	}
	template, _ := doc.(*armtemplate.Object)
	if !armtemplate.IsTemplate(doc) {
		return nil, fmt.Errorf("it is not an ARM template: expected a $schema of a " +
			"deploymentTemplate.json, and resources")
	}
	var parameters *armtemplate.Object
	for _, f := range o.Parameters {
		doc, err := armtemplate.Parse(f.Name, f.Data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", finding.Show(f.Name), err)
		}
		values, err := armtemplate.Parameters(doc)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", finding.Show(f.Name), err)
		}
		parameters = armtemplate.Merge(parameters, values)
	}
	result, err := armtemplate.Evaluate(template, parameters, o.Where)
	if err != nil {
		return nil, err
	}
	t := &armReading{file: file, root: template, result: result, options: o,
		reading: &Reading{Format: ARMTemplate}, byID: map[string]*templateSubnet{}}
	t.carriers()
	t.writes()
	for _, s := range t.subnets {
		t.judge(s)
		t.others(s)
	}
	t.tables()
	t.after()
	t.notes()
	return t, nil
}

// armReading builds the Reading of a template.
type armReading struct {
	file    File
	root    *armtemplate.Object
	result  *armtemplate.Result
	options TemplateOptions
	reading *Reading
	subnets []*templateSubnet
	byID    map[string]*templateSubnet
	vnets   []*armtemplate.Resource
	// doubts are unknown values that matter: notes on other values are not Unknown.
	doubts []string
}

// place returns the place of a resource in the template.
func (t *armReading) place(r *armtemplate.Resource) Place {
	p := subnetPlace(r.ID)
	if !strings.EqualFold(r.Type, arm.TypeSubnet) {
		p.Name = lastName(r.Name)
	}
	p.Address, p.File, p.Line = r.Address, r.File, r.Line
	return p
}

// subnetPlace returns the place of an ID.
func subnetPlace(id string) Place {
	p := Place{Name: lastName(id)}
	parsed, err := arm.ParseID(id)
	if err != nil {
		return p
	}
	p.ID = parsed
	if parsed.Is(arm.TypeSubnet) {
		p.VNet = parsed.Parent().Name()
	}
	return p
}

func lastName(s string) string { return s[strings.LastIndexByte(s, '/')+1:] }

// each calls a function for each resource of a type that the template writes.
func (t *armReading) each(resourceType string, do func(*armtemplate.Resource)) {
	for _, r := range t.result.Resources {
		if strings.EqualFold(r.Type, resourceType) && !r.Existing && r.ID != "" {
			do(r)
		}
	}
}

// armMatters are the types in which an unknown value may hide an effect.
var armMatters = []string{arm.TypeVNet, arm.TypeSubnet, arm.TypeRouteTable, arm.TypeRouteTable +
	"/routes", arm.TypeCluster, arm.TypeCluster +
	"/agentPools", arm.TypeGateway, "Microsoft.Resources/deployments"}

// notes copies the notes of the evaluation. An unknown value only matters if it may affect a subnet
// or table.
func (t *armReading) notes() {
	at := map[string]bool{}
	for _, r := range t.result.Resources {
		if slices.ContainsFunc(armMatters, func(m string) bool {
			return strings.EqualFold(m, r.Type)
		}) || r.Type == "" {
			at[r.Address] = true
			t.doubt(armtemplate.Opaque(r.ID), r.Maybe)
		}
	}
	for _, n := range t.result.Notes {
		unknown := n.Unknown
		if name, is := strings.CutPrefix(n.Address[strings.LastIndex(n.Address, "parameters.")+1:],
			"arameters."); is {
			unknown = unknown && slices.ContainsFunc(t.doubts, func(d string) bool {
				return strings.Contains(d, "{"+name+"}") || strings.Contains(d, "parameter "+name)
			})
		} else if strings.HasPrefix(n.Address, "outputs.") {
			unknown = false
		} else if strings.Contains(n.Address, "resources") {
			unknown = unknown && at[n.Address]
		}
		t.note(Place{Address: n.Address, File: n.File, Line: n.Line}, unknown, n.Text)
	}
	const complete = "in complete mode, Azure deletes everything in the resource group that the " +
		"template does not name, route tables included unless a subnet uses them"
	if t.options.Complete {
		t.note(Place{}, false, complete)
	}
	t.each("Microsoft.Resources/deployments", func(r *armtemplate.Resource) {
		if strings.EqualFold(r.Body.Object("properties").Text("mode"), "Complete") {
			t.note(t.place(r), false, complete)
		}
	})
}

func (t *armReading) note(at Place, unknown bool, text string) {
	t.reading.Notes = append(t.reading.Notes, Note{Place: at, Text: text, Unknown: unknown})
}

// doubt remembers unknown values that matter.
func (t *armReading) doubt(values ...any) {
	for _, v := range values {
		switch v := v.(type) {
		case armtemplate.Opaque:
			t.doubts = append(t.doubts, string(v))
		case *armtemplate.Unknown:
			if v != nil {
				t.doubts = append(t.doubts, v.Why)
			}
		case []any:
			t.doubt(v...)
		case *armtemplate.Object:
			for _, m := range v.Members {
				t.doubt(m.Value)
			}
		}
	}
}

// carriers finds the subnets in which clusters, pools and gateways of the template need routes.
// With Azure CNI, overlay or not, pods need no table.
func (t *armReading) carriers() {
	add := func(id string, by *armtemplate.Resource, why string) {
		p := subnetPlace(id)
		if p.ID == "" || !p.ID.Is(arm.TypeSubnet) {
			if id != "" {
				t.note(t.place(by), true, "the subnet "+id+" is not known, so what happens to it "+
					"is unknown")
			}
			return
		}
		p.Address, p.File, p.Line = by.Address, by.File, by.Line
		t.reading.Carriers = append(t.reading.Carriers, Carrier{Place: p, Why: why})
	}
	clusters := map[string]*armtemplate.Resource{}
	t.each(arm.TypeCluster, func(r *armtemplate.Resource) {
		clusters[strings.ToLower(r.ID)] = r
		why := t.needs(r)
		if why == "" {
			return
		}
		for _, pool := range r.Body.Object("properties").Objects("agentPoolProfiles") {
			t.doubt(pool.Get("vnetSubnetID"))
			add(pool.Text("vnetSubnetID"), r, why)
		}
	})
	t.each(arm.TypeCluster+"/agentPools", func(r *armtemplate.Resource) {
		subnet := r.Body.Object("properties").Text("vnetSubnetID")
		if subnet == "" {
			return
		}
		cluster := clusters[strings.ToLower(string(arm.ID(r.ID).Parent()))]
		if cluster == nil {
			t.note(t.place(r), false, "the pool's cluster is not in the template, so its network "+
				"plugin is unknown: name the subnet with --subnet if its pods need a route table")
		} else if why := t.needs(cluster); why != "" {
			add(subnet, r, why)
		}
	})
	t.each(arm.TypeGateway, func(r *armtemplate.Resource) {
		for _, c := range r.Body.Object("properties").Objects("gatewayIPConfigurations") {
			add(c.Object("properties").Object("subnet").Text("id"), r, "the gateway "+
				lastName(r.Name)+" is in it and must reach pods")
		}
	})
}

// needs says why the subnets of a cluster need their table, or returns "".
func (t *armReading) needs(cluster *armtemplate.Resource) string {
	profile := cluster.Body.Object("properties").Object("networkProfile")
	plugin := profile.Get("networkPlugin")
	t.doubt(plugin)
	text, known := plugin.(string)
	if !known && plugin != nil {
		text = "{}"
	}
	return nodesNeed(lastName(cluster.Name), text, profile.Text("outboundType"))
}

// carries says why a subnet is known to need its table, or returns "".
func (t *armReading) carries(p Place) string {
	for _, c := range slices.Concat(t.options.Carriers, t.reading.Carriers) {
		if c.isSubnet(p) && c.needs(inventory.PropertyTable) {
			return cmp.Or(c.Why, "it carries pods")
		}
	}
	return ""
}
