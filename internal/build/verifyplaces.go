package build

import (
	"fmt"
	"strings"

	"routekeeper.dev/routekeeper/internal/capacity"
	"routekeeper.dev/routekeeper/internal/diagnose"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// nodes claims that the nodes are there and Ready.
func (v *verifier) nodes() {
	c := v.about(topicNodes, "nodes", v.Cluster.ID,
		v.against("", finding.NodeNotReady, finding.NodesDisagree, finding.NetworkUnavailable))
	state := inventory.ProvisioningState(v.Cluster.Raw)
	ready := 0
	for _, n := range v.Nodes {
		if n.Ready {
			ready++
		}
	}
	all, pools := finding.Count(len(v.Nodes), "node"), v.Cluster.Nodes()
	switch why := v.kubernetes(false); {
	case why != "":
		c.unseen("%s", why)
	case state != "" && !strings.EqualFold(state, "Succeeded"):
		c.unchecked("the cluster's provisioning state is %s: verify it again when it is "+
			"Succeeded", state)
	case len(v.Nodes) != pools:
		c.unchecked("%s in Kubernetes, and the pools count %d: verify it again when nodes have "+
			"joined or left", all, pools)
	case ready < len(v.Nodes):
		c.unchecked("%d of %s are Ready: verify it again after three minutes", ready, all)
	default:
		c.right("%s, as the pools count, all Ready", all)
	}
}

// places claims that nodes and pods have their addresses where they should.
func (v *verifier) places() {
	if len(v.Places) == 0 {
		v.about(topicPods, "addresses of nodes and pods", v.Cluster.ID, nil).unchecked(
			"the cluster uses none of AKS's network plugins, so it is not known which addresses " +
				"its pods have")
	}
	for _, place := range v.Places {
		topic := topicPods
		if place.Kind == "node subnet" {
			topic = topicNodeSubnet
		}
		c := v.about(topic, name(place), place.Subnet, v.againstPlace(place))
		switch why := v.kubernetes(true); {
		case !place.Read:
			c.unchecked("the subnet was not read: %s", unreadReason(v.s, place.Subnet))
		case why != "":
			c.unseen("%s", why)
		case place.Outside > 0:
			c.wrong("%s; %d elsewhere", inside(place), place.Outside)
		default:
			c.right("%s; none elsewhere%s", inside(place), v.unjudged(topic))
		}
	}
}

// againstPlace returns the findings about a place. Findings about nodes and pods that are elsewhere
// name the place as their subject.
func (v *verifier) againstPlace(place diagnose.Place) (wrong []finding.Finding) {
	for _, f := range v.against("", finding.NodeOutside, finding.PodOutside) {
		if strings.Contains(f.Subject, called(place)) {
			wrong = append(wrong, f)
		}
	}
	if place.Subnet == "" {
		return wrong
	}
	return append(wrong,
		v.against(place.Subnet, finding.SubnetDelegated, finding.SubnetUsedTwice)...)
}

// called returns how findings call a place.
func called(p diagnose.Place) string {
	if p.Subnet == "" {
		return p.Kind
	}
	return p.Kind + " " + p.Subnet.Short() + " ("
}

// name returns a place in a claim: node subnet 10.243.0.0/16 (shop-vnet/nodes).
func name(p diagnose.Place) string {
	name := p.Kind
	if len(p.Prefixes) > 0 {
		name += " " + inventory.List(p.Prefixes)
	}
	if p.Subnet != "" {
		name += " (" + p.Subnet.Short() + ")"
	}
	return name
}

// inside says what is in a place: 3 nodes and 12 host-network pods (azure-cns, kube-proxy).
func inside(p diagnose.Place) string {
	var words []string
	if p.Kind == "node subnet" {
		host := finding.Count(p.Host, "host-network pod")
		if len(p.Agents) > 0 {
			const most = 6
			names := p.Agents[:min(most, len(p.Agents))]
			host += " (" + strings.Join(names, ", ")
			if more := len(p.Agents) - most; more > 0 {
				host += fmt.Sprintf(" and %d more", more)
			}
			host += ")"
		}
		words = append(words, finding.Count(p.Nodes, "node"), host)
	}
	if p.Kind != "node subnet" || p.Pods > 0 {
		pods := finding.Count(p.Pods, "pod")
		if p.Kind == "pod CIDR" && p.Pods > 0 {
			pods += " in the pod CIDRs of their nodes"
		}
		words = append(words, pods)
	}
	if last := len(words) - 1; last > 0 {
		return strings.Join(words[:last], ", ") + " and " + words[last]
	}
	return words[0]
}

// unjudged says what the counts leave out.
func (v *verifier) unjudged(topic string) (text string) {
	if v.Waiting > 0 && topic == topicPods {
		text += fmt.Sprintf("; %s without an address yet", finding.Count(v.Waiting, "pod"))
	}
	if v.Astray > 0 {
		text += fmt.Sprintf("; %d that belong to no node pool are not assessed", v.Astray)
	}
	return text
}

// addresses claims that each subnet has addresses left.
func (v *verifier) addresses() {
	seen := map[string]bool{}
	for _, place := range v.Places {
		id := place.Subnet
		if !place.Read || id == "" || seen[id.Key()] || place.Usable == 0 {
			continue
		}
		seen[id.Key()] = true
		c := v.about(topicAddresses, "addresses of "+id.Short(), id,
			v.against(id, finding.AddressesNearly, finding.AddressesExhausted, finding.SurgeShort))
		left := max(0, place.Usable-place.Used)
		switch {
		case left == 0:
			c.wrong("none of %d is left", place.Usable)
		// it is not documented whether Azure shows all addresses that nodes hold
		case place.Kind == "pod subnet":
			c.right("at most %d of %d are left: nodes hold 16 at a time", left, place.Usable)
		default:
			c.right("%d of %d are left", left, place.Usable)
		}
	}
}

// room claims that each pool can be upgraded, and grow as far as its autoscaler goes.
func (v *verifier) room() {
	c := v.about(topicRoom, "room for more nodes", v.Cluster.ID,
		v.against("", finding.AddressesShort, finding.TableFull, finding.TableFilling))
	pools, unseen, err := diagnose.Pools(v.s, v.Cluster, capacity.SurgeOf(""), v.limit)
	switch {
	case err != nil:
		c.unchecked("%s", err)
		return
	case len(unseen) > 0:
		c.unchecked("%s", unseen[0])
		return
	}
	short := false
	var words []string
	for _, g := range capacity.Grow(pools) {
		words = append(words, fmt.Sprintf(
			"pool %s has %s and holds %d with the surge of an upgrade (limited by %s)",
			g.Pool, finding.Count(g.Nodes, "node"), g.Most, g.LimitedBy))
		short = short || g.Most < max(g.Nodes, g.Autoscaler)
	}
	if text := strings.Join(words, "; "); short {
		c.wrong("%s", text)
	} else {
		c.right("%s", text)
	}
}
