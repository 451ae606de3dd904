package iac

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// subnetsKept is the api-version from which a PUT of a virtual network without subnets keeps them.
// Older versions delete them.
const subnetsKept = "2023-09-01"

// armSubnet is a subnet as a body writes it.
type armSubnet struct {
	Name       string `json:"name"`
	Properties struct {
		Table         *arm.Ref `json:"routeTable"`
		NATGateway    *arm.Ref `json:"natGateway"`
		SecurityGroup *arm.Ref `json:"networkSecurityGroup"`
	} `json:"properties"`
}

func (s armSubnet) has(p inventory.Property) arm.ID {
	return map[inventory.Property]*arm.Ref{inventory.PropertyTable: s.Properties.Table,
		inventory.PropertyNAT:   s.Properties.NATGateway,
		inventory.PropertyGroup: s.Properties.SecurityGroup}[p].Target()
}

// armBody is the body of a subnet or of a virtual network.
type armBody struct {
	armSubnet
	network struct {
		Properties struct {
			Subnets *[]armSubnet `json:"subnets"`
		} `json:"properties"`
	}
}

// body reads the body of an azapi resource: an object, or text with one before azapi 2.0.
func (v *tfValues) body() (armBody, error) {
	var b armBody
	raw := v.bodyText()
	if len(raw) == 0 || string(raw) == "null" {
		return b, nil
	}
	if err := json.Unmarshal(raw, &b.network); err != nil {
		return b, err
	}
	return b, json.Unmarshal(raw, &b.armSubnet)
}

// bodyText returns the body's JSON, from an object or from text.
func (v *tfValues) bodyText() []byte {
	var text string
	if json.Unmarshal(v.Body, &text) == nil {
		return []byte(text)
	}
	return v.Body
}

// azapi judges an azapi_resource or azapi_update_resource of a subnet or a virtual network. The
// first PUTs its body as it is. The second reads the resource and merges the body into it; a list
// replaces a list.
func (j *judge) azapi(r *tfResource) {
	v := r.after()
	if r.deletes() {
		v = r.before()
	}
	kind, version, _ := strings.Cut(v.AzapiType, "@")
	switch {
	case r.Type == tfAzapi && strings.EqualFold(kind, arm.TypeCluster):
		j.cluster(r)
		return
	case strings.EqualFold(kind, arm.TypeRouteTable):
		j.bodyTable(r)
		return
	}
	subnet, vnet := strings.EqualFold(kind, arm.TypeSubnet), strings.EqualFold(kind, arm.TypeVNet)
	if !subnet && !vnet {
		return
	}
	id := r.before().ID
	switch {
	case v.ResourceID != "":
		id = v.ResourceID
	case id == "" && subnet && v.ParentID != "" && v.Name != "":
		id = v.ParentID.Child("subnets", v.Name)
	case id == "" && v.ParentID != "" && v.Name != "":
		id = v.ParentID.Child("providers/"+arm.TypeVNet, v.Name)
	}
	switch {
	case r.Type == tfAzapiUpdate && r.deletes(), vnet && r.deletes():
		if r.Type == tfAzapi {
			j.gone[id.Key()] = true
		}
		return
	case subnet && r.Type == tfAzapi && (r.deletes() || r.replaces()):
		j.recreated(id, j.tables[id.Key()], r, "its resource is destroyed")
		return
	case vnet && r.Type == tfAzapi && r.replaces():
		if body, err := r.before().body(); err == nil && body.network.Properties.Subnets != nil {
			for _, s := range *body.network.Properties.Subnets {
				j.recreated(id.Child("subnets", s.Name), s.has(inventory.PropertyTable), r,
					"its network is replaced")
			}
		}
		j.goneWith(r, id)
		return
	case r.creates() && r.Type == tfAzapi, id == "":
		return
	case r.Change.Unknown.of("body").all:
		j.unknown(r, "its body is known only after apply, so its effect on route tables is unknown")
		return
	}
	before, err := r.before().body()
	after, err2 := r.after().body()
	if err != nil || err2 != nil {
		j.unknown(r, "its body was not understood")
		return
	}
	list := after.network.Properties.Subnets
	properties := r.Change.Unknown.of("body").of("properties")
	switch {
	case subnet:
		j.bodySubnet(r, r.Type == tfAzapi, id, before.armSubnet, after.armSubnet, properties)
	case vnet && properties.of("subnets").all:
		j.unknown(r, "the subnets in its body are known only after apply, so it is unknown which "+
			"of them keep a table")
	case vnet && list == nil:
		if r.Type == tfAzapi && version < subnetsKept {
			j.bodyWithout(r, id, version)
		}
	case vnet:
		var old []armSubnet
		if p := before.network.Properties.Subnets; p != nil {
			old = *p
		}
		j.bodySubnets(r, id, old, *list, properties.of("subnets"))
	}
}

// routesApart says how to write a table without its pod routes.
const routesApart = "make the table as azurerm_route_table without route blocks, and each route " +
	"as azurerm_route"

// bodyTable judges a route table that a body writes: azapi_resource as a whole, and
// azapi_update_resource its routes if the body lists them.
func (j *judge) bodyTable(r *tfResource) {
	whole, v := r.Type == tfAzapi, r.after()
	id := cmp.Or(r.before().ID, v.ResourceID)
	routes, listed := v.bodyRoutes()
	if r.Change.Unknown.of("body").any() {
		routes, listed = nil, true
	}
	if id == "" || !r.updates() && (whole || !r.creates()) || !whole && !listed {
		return
	}
	e := Effect{Verb: MayLoseRoutes, What: Place{ID: id, Name: id.Name(), Address: r.Address},
		By: r.place(), How: "the body replaces all routes of the table", Fix: routesApart}
	e.Users = j.usersOf(id, e.By)
	before, _ := r.before().bodyRoutes()
	if gone := j.podRoutes(before, routes); len(gone) > 0 {
		e.Verb, e.Routes = RoutesGone, gone
	}
	j.effects = append(j.effects, e)
}

// bodyRoutes returns the routes in the body of a table, and whether it lists any.
func (v *tfValues) bodyRoutes() (out []tfRouteValues, listed bool) {
	var body struct {
		Properties struct {
			Routes *[]struct {
				Name       string `json:"name"`
				Properties struct {
					Prefix  string `json:"addressPrefix"`
					HopType string `json:"nextHopType"`
					Hop     string `json:"nextHopIpAddress"`
				} `json:"properties"`
			} `json:"routes"`
		} `json:"properties"`
	}
	if json.Unmarshal(v.bodyText(), &body) != nil || body.Properties.Routes == nil {
		return nil, false
	}
	for _, r := range *body.Properties.Routes {
		p := r.Properties
		out = append(out, tfRouteValues{r.Name, p.Prefix, p.HopType, p.Hop})
	}
	return out, true
}

// action judges an azapi_resource_action: an action that PUTs a subnet or a network writes its body
// as it is.
func (j *judge) action(r *tfResource) {
	v := r.after()
	kind, _, _ := strings.Cut(v.AzapiType, "@")
	if strings.EqualFold(v.Method, "PUT") && v.Action == "" &&
		(strings.EqualFold(kind, arm.TypeSubnet) || strings.EqualFold(kind, arm.TypeVNet)) {
		j.unknown(r, "it PUTs a subnet or a network, and its body is not checked: make sure that "+
			"each subnet in it has its routeTable")
	}
}

// names reports whether the body of an update of a subnet names a property.
func (r *tfResource) names(p inventory.Property) bool {
	return strings.Contains(strings.ToLower(string(r.after().Body)), strings.ToLower(string(p)))
}

func (j *judge) bodySubnets(r *tfResource, vnet arm.ID, before, after []armSubnet, u unknown) {
	for i, now := range after {
		var old armSubnet
		for _, b := range before {
			if strings.EqualFold(b.Name, now.Name) {
				old = b
			}
		}
		j.bodySubnet(r, true, vnet.Child("subnets", now.Name), old, now, u.at(i).of("properties"))
	}
	listed := func(name string) bool {
		return slices.ContainsFunc(after, func(s armSubnet) bool {
			return strings.EqualFold(s.Name, name)
		})
	}
	for _, old := range before {
		if !listed(old.Name) {
			id := vnet.Child("subnets", old.Name)
			j.recreated(id, j.tables[id.Key()], r, "the body no longer lists it")
		}
	}
	for _, subnet := range j.subnets[vnet.Key()] {
		if !subnet.changes && !listed(subnet.id.Name()) {
			j.recreated(subnet.id, "", r, "the body lists other subnets but not this one")
		}
	}
}

// bodyWithout judges a network's body that lists no subnets. At this api-version Azure then deletes
// the subnets that the network has.
func (j *judge) bodyWithout(r *tfResource, vnet arm.ID, version string) {
	if len(j.subnets[vnet.Key()]) == 0 {
		j.notes = append(j.notes, listsNone(r.place(), version))
	}
	for _, s := range j.subnets[vnet.Key()] {
		j.recreated(s.id, j.tables[s.id.Key()], r,
			"the body lists no subnets, which at api-version "+version+" deletes them: use "+
				subnetsKept+" or later")
	}
}

// listsNone notes that a network's body deletes its subnets, about which nothing else is known.
func listsNone(at Place, version string) Note {
	return Note{Place: at, Text: "its body lists no subnets, which at api-version " + version +
		" deletes the subnets of the network: use " + subnetsKept + " or later", Unknown: true}
}

// bodySubnet judges a subnet that a body writes, completely or only what the body names. u has what
// is unknown about its properties.
func (j *judge) bodySubnet(r *tfResource, whole bool, id arm.ID, before, after armSubnet,
	u unknown) {
	for _, p := range inventory.Properties {
		if whole || r.names(p) {
			j.bodyProperty(r, p, id, before.has(p), after.has(p), u.of(string(p)))
		}
	}
}

func (j *judge) bodyProperty(r *tfResource, p inventory.Property, id, before, now arm.ID,
	u unknown) {
	had := cmp.Or(j.propertyBefore(id, p), before)
	e := Effect{What: j.subnet(id, r.place()), By: r.place(), Property: other(p),
		Before: string(had), After: string(now)}
	e.Fix = fmt.Sprintf("in the body of %s, in the properties of %s: %s = { id = %s }",
		r.Address, id.Name(), p, j.reference(had, r.Module))
	e.Repair = &Repair{Address: r.Address, Subnet: id.Name(),
		Set: []Setting{{string(p), "{ id = " + j.reference(had, r.Module) + " }"}}}
	switch {
	case u.any(): // made by the same plan
		if had == "" {
			return
		}
		e.Verb, e.How = Another, "the body names a "+string(p)+" that is known only after apply"
	case now == "" && had != "":
		e.Verb, e.How = Loses, "the body names no "+string(p)+", and Azure writes it as it is"
	case now == "":
		e.Verb, e.How = MayLose, "the body names no "+string(p)+", and Azure writes it as it is; "+
			whyUncertain(p)
		e.Fix, e.Repair = showCommand(Place{ID: id}, p), nil
	case had != "" && !now.Equal(had):
		e.Verb, e.How = Another, "the body names another "+string(p)
	default:
		return
	}
	j.add(e)
}

// armUser is the body of a cluster, a pool or a gateway, as far as it names subnets.
type armUser struct {
	Properties struct {
		NetworkProfile struct {
			Plugin   string `json:"networkPlugin"`
			Outbound string `json:"outboundType"`
			PodCIDR  string `json:"podCidr"`
		} `json:"networkProfile"`
		Pools []struct {
			SubnetID arm.ID `json:"vnetSubnetID"`
		} `json:"agentPoolProfiles"`
		SubnetID arm.ID `json:"vnetSubnetID"`
		Gateways []struct {
			Properties struct {
				Subnet struct {
					ID arm.ID `json:"id"`
				} `json:"subnet"`
			} `json:"properties"`
		} `json:"gatewayIPConfigurations"`
	} `json:"properties"`
}

// ofAzapi returns an azapi_resource as the azurerm resource of the same kind; nil for kinds without
// a subnet.
func (r *tfResource) ofAzapi() *tfResource {
	kind, _, _ := strings.Cut(r.Values.AzapiType, "@")
	var body armUser
	if json.Unmarshal(r.Values.bodyText(), &body) != nil {
		return nil
	}
	p, v := body.Properties, &tfValues{ID: r.Values.ID, Name: r.Values.Name,
		ClusterID: r.Values.ParentID}
	r.Values = v
	switch {
	case strings.EqualFold(kind, arm.TypeCluster):
		r.Type = tfCluster
		v.Profile = append(v.Profile, tfProfile{Plugin: p.NetworkProfile.Plugin,
			Outbound: p.NetworkProfile.Outbound, PodCIDR: p.NetworkProfile.PodCIDR})
		for _, pool := range p.Pools {
			v.DefaultPool = append(v.DefaultPool, tfDefaultPool{SubnetID: pool.SubnetID})
		}
	case strings.EqualFold(kind, arm.TypeCluster+"/agentPools"):
		r.Type, v.PoolSubnet = tfPool, p.SubnetID
	case strings.EqualFold(kind, arm.TypeGateway):
		r.Type = tfGateway
		for _, g := range p.Gateways {
			v.GatewayIPs = append(v.GatewayIPs, tfGatewayIP{SubnetID: g.Properties.Subnet.ID})
		}
	default:
		return nil
	}
	return r
}
