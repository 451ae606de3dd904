package iac

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// object is a part of an ARM document.
type object = map[string]any

// picture is a network as ARM would show it, as far as a plan shows it: documents by key, and the
// pools of clusters by the cluster's key.
type picture struct {
	docs   map[string]object
	pools  map[string][]object
	routes []ownRoute
	over   bool // there is more than is pictured
}

// maxPicture limits the number of documents in a picture, to bound memory.
const maxPicture = 2000

// picture adds a resource before and after; nil if it does not exist.
func (p *tfPlan) picture(r *tfResource, values ...*tfValues) {
	for i, v := range values {
		pic := &p.pictures[i]
		if v == nil || pic.over {
			continue
		}
		if pic.docs == nil {
			*pic = picture{docs: map[string]object{}, pools: map[string][]object{}}
		}
		pic.take(r.Type, v)
		if len(pic.docs) > maxPicture || len(pic.routes) > maxOwnRoutes {
			*pic = picture{over: true}
		}
	}
}

// take adds one resource. It skips resources without an ID, except pools and separate routes.
func (pic *picture) take(kind string, v *tfValues) {
	if kind == tfRoute {
		pic.routes = append(pic.routes, newOwnRoute(v))
		return
	}
	if kind == tfPool && v.ClusterID != "" {
		key := v.ClusterID.Key()
		pic.pools[key] = append(pic.pools[key], pool(v.Name, v.PoolSubnet, v.Count))
	}
	if v.ID == "" {
		return
	}
	put := func(id arm.ID, properties object) {
		pic.docs[id.Key()] = object{"id": string(id), "properties": properties}
	}
	switch kind {
	// Of a network it takes only the subnets. Peerings may be in other plans, too, so this plan
	// does not show all of them.
	case tfVNet:
		for _, b := range v.Subnet {
			id := v.ID.Child("subnets", inline(b).name())
			if pic.docs[id.Key()] == nil { // its own resource says more
				put(id, object{"addressPrefixes": b["address_prefixes"]})
			}
		}
	case tfSubnet:
		var delegations []object
		for _, d := range v.Delegation {
			for _, s := range d.Service {
				delegations = append(delegations,
					object{"properties": object{"serviceName": s.Name}})
			}
		}
		put(v.ID, object{"addressPrefixes": v.Prefixes, "delegations": delegations})
	case tfTable:
		routes := []object{}
		for _, r := range v.Route {
			routes = append(routes, r.object())
		}
		put(v.ID, object{"routes": routes})
	case tfCluster:
		profile := object{}
		for _, n := range v.Profile {
			profile = object{"networkPlugin": n.Plugin, "networkPluginMode": n.Mode,
				"podCidr": n.PodCIDR, "serviceCidr": n.ServiceCIDR, "outboundType": n.Outbound}
		}
		for _, d := range v.DefaultPool {
			pic.pools[v.ID.Key()] = append(pic.pools[v.ID.Key()], pool(d.Name, d.SubnetID, d.Count))
		}
		put(v.ID, object{"nodeResourceGroup": v.NodeGroup, "networkProfile": profile})
	case tfGateway:
		var configurations []object
		for _, c := range v.GatewayIPs {
			configurations = append(configurations,
				object{"properties": object{"subnet": arm.Link(c.SubnetID)}})
		}
		put(v.ID, object{"gatewayIPConfigurations": configurations})
	}
}

func pool(name string, subnet arm.ID, count int) object {
	return object{"name": name, "vnetSubnetID": string(subnet), "count": count}
}

// snapshots returns the network before and after; nil if the plan shows none, or more than
// maxPicture.
func (j *judge) snapshots(own ownRoutes) (before, after *inventory.Snapshot) {
	for _, pic := range j.pictures {
		if len(pic.docs) == 0 || pic.over {
			return nil, nil
		}
	}
	for i, pic := range j.pictures {
		own.addTo(pic, i == 1)
	}
	now, then := maps.Clone(j.tables), maps.Clone(j.tables)
	othersNow, othersThen := maps.Clone(j.others), maps.Clone(j.others)
	for at, r := range j.associates {
		if id := r.after().gives(at.property); at.property == inventory.PropertyTable {
			then[at.subnet] = id
		} else if id != "" {
			othersThen[at] = id
		}
	}
	for _, e := range j.effects {
		key := e.What.ID.Key()
		if at := (slot{key, e.Property}); e.Property != "" {
			if e.Verb == Loses {
				delete(othersThen, at)
			} else if e.Verb == Another && strings.HasPrefix(e.After, "/") {
				othersThen[at] = arm.ID(e.After)
			}
			continue
		}
		switch e.Verb {
		case Recreated:
			delete(j.pictures[1].docs, key)
		case Loses:
			then[key] = ""
		case Another:
			then[key] = arm.ID(e.After)
		case MayLose, Useless: // it is as it was, as far as the plan shows
		case Flaps: // its table again, that of an association (above), or one not known yet
		case RoutesGone, MayLoseRoutes, Destroyed, Migrates: // the documents show it
		}
	}
	return j.pictures[0].snapshot(now, othersNow), j.pictures[1].snapshot(then, othersThen)
}

// snapshot makes a snapshot of the documents, and of the subnets' tables and other properties, by
// the subnets' keys. A table that has only a name so far is unknown.
func (pic picture) snapshot(tables map[string]arm.ID, others map[slot]arm.ID) *inventory.Snapshot {
	s := inventory.NewSnapshot()
	gateways := map[string][]arm.ID{}
	for _, key := range slices.Sorted(maps.Keys(pic.docs)) {
		doc := pic.docs[key]
		id := arm.ID(doc["id"].(string))
		properties := doc["properties"].(object)
		switch table := tables[key]; {
		case id.Is(arm.TypeCluster):
			properties["agentPoolProfiles"] = pic.pools[key]
		case id.Is(arm.TypeSubnet) && table != "" && !strings.HasPrefix(string(table), "/"):
			s.Unread[key] = inventory.Unread{ID: id, Message: "its table is made by the same plan"}
			continue
		case id.Is(arm.TypeSubnet) && table != "":
			properties["routeTable"] = arm.Link(table)
		}
		for _, p := range inventory.Properties {
			if has := others[slot{key, p}]; has != "" {
				properties[string(p)] = arm.Link(has)
			}
		}
		raw, err := json.Marshal(doc)
		if err == nil {
			err = s.Add(raw)
		}
		if err != nil {
			s.Unread[key] = inventory.Unread{ID: id, Message: err.Error()}
		}
	}
	for _, g := range s.Gateways {
		for _, subnet := range g.Subnets {
			gateways[subnet.Key()] = append(gateways[subnet.Key()], g.ID)
		}
	}
	for key, ids := range gateways {
		if subnet := s.Subnets[key]; subnet != nil {
			subnet.Gateways = inventory.SortIDs(ids)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.Subnets)) {
		subnet := s.Subnets[key]
		if table := s.Table(subnet.RouteTable); table != nil {
			table.Subnets = append(table.Subnets, subnet.ID)
		}
	}
	return s
}
