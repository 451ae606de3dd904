package assess

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/iac"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// documents returns what iac reads of each fixture, by file; and of each folder of Terraform.
func documents(t *testing.T) map[string]*iac.Reading {
	out := map[string]*iac.Reading{}
	for _, root := range []string{"../testdata", "../../../testdata/terraform"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if r, err := iac.Read(path, strings.NewReader(string(raw)),
				iac.TemplateOptions{}); err == nil {
				out[path] = r
			}
			if filepath.Ext(path) == ".tf" {
				dir := filepath.Dir(path)
				parts, err := iac.ReadFolder(os.DirFS(dir), ".", iac.TemplateOptions{})
				for i, p := range parts {
					out[fmt.Sprintf("%s, part %d", dir, i)] = p.Reading
				}
				return err
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func whole(id arm.ID) bool { return id != "" && !strings.Contains(string(id), "{") }

// liveWorld is what a document is about, and what the real network may show of it.
type liveWorld struct {
	effects []iac.Effect
	subnets []iac.Place
	tables  []arm.ID
	// clusters have one that the document does not have.
	clusters []string
}

func newLiveWorld(r *iac.Reading) *liveWorld {
	w := &liveWorld{effects: slices.Concat(r.Effects, r.Open, r.Associations)}
	seen := map[string]bool{}
	table := func(id arm.ID) {
		id, err := arm.ParseID(string(id))
		if err == nil && whole(id) && id.Is(arm.TypeRouteTable) && !seen[id.Key()] {
			seen[id.Key()] = true
			w.tables = append(w.tables, id)
		}
	}
	subnet := func(p iac.Place) {
		key := strings.ToLower(p.VNet + "/" + p.Name)
		if p.VNet != "" && !strings.Contains(key, "{") && !seen[key] { // Azure has no such names
			seen[key] = true
			w.subnets = append(w.subnets, p)
		}
	}
	for _, e := range w.effects {
		subnet(e.What)
		table(e.What.ID)
		table(arm.ID(e.Before))
		table(arm.ID(e.After))
	}
	for _, s := range []*inventory.Snapshot{r.Before, r.After} {
		if s == nil {
			continue
		}
		for _, n := range s.Subnets {
			subnet(iac.Place{ID: n.ID, Name: n.ID.Name(), VNet: n.ID.Parent().Name()})
			table(n.RouteTable)
		}
		for _, c := range s.Clusters {
			w.clusters = append(w.clusters, string(c.ID))
		}
	}
	table(arm.ResourceID(elsewhere, "g", arm.TypeRouteTable, "another"))
	w.clusters = append(w.clusters, string(arm.ResourceID(elsewhere, "g", arm.TypeCluster, "live")))
	slices.Sort(w.clusters)
	slices.SortFunc(w.subnets, func(a, b iac.Place) int {
		return strings.Compare(a.VNet+"/"+a.Name, b.VNet+"/"+b.Name)
	})
	slices.Sort(w.tables)
	return w
}

const elsewhere = "99999999-9999-9999-9999-999999999999"

var unread = inventory.Unread{Status: 403, Code: "AuthorizationFailed"}

// id returns the ID of a subnet in Azure. Code without one may be of any subscription.
func (w *liveWorld) id(p iac.Place, subscription string) arm.ID {
	if whole(p.ID) {
		return p.ID
	}
	return arm.ResourceID(subscription, "g", arm.TypeVNet, p.VNet).Child("subnets", p.Name)
}

// draw returns what the user says about the subnets, and a network in Azure: with a part of the
// subnets and tables, of what they have, and of the clusters.
func (w *liveWorld) draw(t *rapid.T) (named []iac.Carrier, live *inventory.Snapshot) {
	live = inventory.NewSnapshot()
	add := func(id arm.ID, properties string) {
		if err := live.Add(fmt.Appendf(nil, `{"id":%q,"properties":{%s}}`, id,
			properties)); err != nil {
			t.Fatal(err)
		}
	}
	pick := func(what string, from ...string) string {
		return rapid.SampledFrom(from).Draw(t, what)
	}
	network := func(kind, name string) string {
		return string(arm.ResourceID(elsewhere, "g", kind, name))
	}
	var nodes []string
	for _, p := range w.subnets {
		name := p.VNet + "/" + p.Name
		id := w.id(p, pick("subscription of "+name, "s", elsewhere))
		switch says := pick("said of "+name, "nothing", "name", "ID", "guarded"); says {
		case "nothing":
		case "name":
			named = append(named, iac.Named(name, "it has pods"))
		default:
			c := iac.Named(string(w.id(p, "s")), "it has pods")
			if says == "guarded" {
				c.Must = map[inventory.Property]arm.ID{}
				for _, p := range inventory.Properties {
					c.Must[p] = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/x/y"
				}
			}
			named = append(named, c)
		}
		switch pick(name, "absent", "unread", "there", "there", "there") {
		case "unread":
			live.Unread[id.Key()] = unread
		case "there":
			var has []string
			for _, property := range []struct {
				name string
				ids  []string
			}{
				{"routeTable", append([]string{""}, texts(w.tables)...)},
				{"natGateway", []string{"", network(arm.TypeNATGateway, "nat")}},
				{"networkSecurityGroup", []string{"", network(arm.TypeSecurityGroup, "nsg")}},
			} {
				if id := pick(property.name+" of "+name, property.ids...); id != "" {
					has = append(has, fmt.Sprintf(`%q:{"id":%q}`, property.name, id))
				}
			}
			add(id, strings.Join(has, ","))
			nodes = append(nodes, string(id))
		}
	}
	for _, id := range w.tables {
		switch routes := pick(id.Short(), "absent", "unread", "", pod); routes {
		case "absent":
		case "unread":
			live.Unread[id.Key()] = unread
		default:
			add(id, `"routes":[`+routes+`]`)
		}
	}
	if plugin := pick("plugin", "", "kubenet", "azure"); plugin != "" && len(nodes) > 0 {
		add(arm.ID(pick("cluster", w.clusters...)), fmt.Sprintf(
			`"nodeResourceGroup":"mc","networkProfile":{"networkPlugin":%q,`+
				`"outboundType":%q,"podCidr":"10.244.0.0/16"},"agentPoolProfiles":`+
				`[{"name":"np","vnetSubnetID":%q}]`, plugin, pick("outbound type", "loadBalancer",
				"userDefinedRouting"), pick("nodes", nodes...)))
	}
	return named, live
}

const pod = `{"name":"aks-np-12345678-vmss000000____102440024","properties":{"addressPrefix":` +
	`"10.244.0.0/24","nextHopType":"VirtualAppliance","nextHopIpAddress":"10.0.0.4"}}`

func texts(ids []arm.ID) (out []string) {
	for _, id := range ids {
		out = append(out, string(id))
	}
	return out
}

// refuted reports whether the network shows that a possible loss is none: the subnet has nothing to
// lose, or the table no route. A subnet of the same name is no evidence if the user means another.
func refuted(e iac.Effect, said []iac.Carrier, live *inventory.Snapshot) bool {
	if e.Verb == iac.MayLoseRoutes {
		table := live.Table(e.What.ID)
		return table != nil && len(table.Routes()) == 0
	}
	property := e.Property
	if property == "" {
		property = inventory.PropertyTable
	}
	named := func(id arm.ID) bool {
		return strings.EqualFold(id.Name(), e.What.Name) &&
			strings.EqualFold(id.Parent().Name(), e.What.VNet)
	}
	for _, s := range live.Subnets {
		same := s.ID.Equal(e.What.ID)
		if !whole(e.What.ID) {
			same = named(s.ID) && !slices.ContainsFunc(said, func(c iac.Carrier) bool {
				return c.ID != "" && named(c.ID) && !c.ID.Equal(s.ID)
			})
		}
		if e.Verb == iac.MayLose && same && s.Has(property) == "" {
			return true
		}
	}
	return false
}

// worst returns the severity of the worst finding about a resource, or about all for "".
func worst(found []finding.Finding, about string) (worst finding.Severity) {
	worst = -1
	for _, f := range found {
		if about == "" || strings.EqualFold(f.Resource, about) {
			worst = max(worst, f.Severity)
		}
	}
	return worst
}

// TestLiveNeverMilder: whatever the real network shows of what a document is about, no verdict is
// milder than without it. Only a possible loss may go, if there is nothing to lose.
func TestLiveNeverMilder(t *testing.T) {
	settled, graver := 0, 0
	for name, r := range documents(t) {
		w := newLiveWorld(r)
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				named, live := w.draw(t)
				files, azure := iac.Known{Carriers: named}, iac.Known{Carriers: named}
				azure.Observe(live)
				for _, e := range w.effects {
					one := &iac.Reading{Carriers: r.Carriers, Effects: []iac.Effect{e}}
					if slices.ContainsFunc(r.Associations, func(g iac.Effect) bool {
						return g.What == e.What && g.Verb == e.Verb && g.How == e.How
					}) {
						one.Associations, one.Effects = one.Effects, nil
					}
					was, is := one.Findings(files), one.Findings(azure)
					switch before, after := worst(was, ""), worst(is, ""); {
					case before < after:
						graver++
					case before > after && refuted(e, named, live):
						settled++
					case before > after:
						t.Errorf("%s of %+v:\nfiles: %+v\nAzure: %+v", e.Verb, e.What, was, is)
					}
				}
				is := Findings(r, []*iac.Reading{r}, nil, azure)
				for _, f := range Findings(r, []*iac.Reading{r}, nil, files) {
					if f.Resource != "" && worst(is, f.Resource) < f.Severity &&
						f.Code != finding.IaCMayStrip && f.Code != finding.IaCMayRoutes {
						t.Errorf("milder with the real network: %+v\n%+v", f, is)
					}
				}
			})
		})
	}
	if settled == 0 || graver == 0 {
		t.Errorf("the real network settled %d possible losses, and made %d graver", settled, graver)
	}
}
