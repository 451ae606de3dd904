package emulator

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// condition is what is special about a cluster of the fleet.
type condition struct {
	// blocks says what blocks its migration off kubenet, or is "" if it only looks as if something
	// did.
	blocks string
	// cluster changes the cluster's document before it is created.
	cluster func(body kernel.Object)
	// subnet is the name of the node subnet, if it is not "nodes".
	subnet string
	// network changes its network before that is made.
	network func(*Place)
	// after changes something once the cluster has its routes.
	after func(c *Client, m fleetMember) error
}

// conditions are by the cluster's name. Each blocker has a near miss: a cluster that is almost the
// same and can migrate.
var conditions = map[string]condition{
	"shop-10": {blocks: "the gateway's subnet has the cluster's route table",
		after: gatewayOnTable},
	"shop-12": {blocks: "it has the policy engine calico", cluster: policyEngine("calico")},
	"shop-13": {blocks: "its Kubernetes is 1.26", cluster: func(body kernel.Object) {
		body["properties"].(kernel.Object)["kubernetesVersion"] = "1.26.9"
	}},
	"shop-14": {blocks: "its pod CIDR has room for 4 nodes, but its pool grows to 4 and a surge " +
		"node",
		cluster: growing("10.244.0.0/22", 4)},
	"shop-15": {blocks: "its machines are of the DCsv2 series", cluster: ofSize("DC4s_v2")},
	"shop-16": {blocks: "it is stopped", after: stop},
	"shop-17": {blocks: "a lock is on its node resource group", after: lockGroup(true)},
	"shop-18": {blocks: "its subnet for Application Gateway for Containers is a /23",
		network: forContainers(23)},
	"shop-19": {blocks: "its node subnet's name has 70 characters",
		subnet: "nodes-" + strings.Repeat("x", 64)},
	"shop-20": {blocks: "it has calico, and the gateway's subnet has the cluster's route table",
		cluster: policyEngine("calico"), after: gatewayOnTable},
	"shop-21": {blocks: "its node subnet has no address for a surge node", network: func(p *Place) {
		p.Subnets[0].Prefix = strings.Replace(p.Subnets[0].Prefix, "/20", "/29", 1)
	}},

	"shop-22": {cluster: policyEngine("none")},
	"shop-23": {network: forContainers(24)},
	"shop-24": {after: lockGroup(false)},
	"shop-25": {cluster: growing("10.244.0.0/22", 3)},
	"shop-26": {cluster: ofSize("DC4s_v3")},
	"shop-27": {cluster: func(body kernel.Object) {
		body["properties"].(kernel.Object)["kubernetesVersion"] = "1.27.9"
	}},
}

// stop stops the cluster, after a pause while the writes of its subscription are throttled.
func stop(c *Client, m fleetMember) error {
	for {
		status, body := c.Do(http.MethodPost, m.cluster+"/stop", demoAKS, nil)
		switch {
		case status < http.StatusMultipleChoices:
			return nil
		case status != http.StatusTooManyRequests:
			return fmt.Errorf("stop %s: %d %s", m.cluster, status, body)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func policyEngine(name string) func(kernel.Object) {
	return func(body kernel.Object) {
		kernel.ObjectAt(body, "properties", "networkProfile")["networkPolicy"] = name
	}
}

func poolOf(body kernel.Object) kernel.Object {
	return kernel.ObjectAt(body, "properties")["agentPoolProfiles"].([]any)[0].(kernel.Object)
}

func growing(podCIDR string, most int) func(kernel.Object) {
	return func(body kernel.Object) {
		kernel.ObjectAt(body, "properties", "networkProfile")["podCidr"] = podCIDR
		pool := poolOf(body)
		pool["enableAutoScaling"], pool["minCount"], pool["maxCount"] = true, 1, most
	}
}

func ofSize(size string) func(kernel.Object) {
	return func(body kernel.Object) { poolOf(body)["vmSize"] = "Standard_" + size }
}

func forContainers(bits int) func(*Place) {
	return func(p *Place) {
		prefix := strings.Replace(p.Subnets[1].Prefix, ".16.0/24", fmt.Sprintf(".32.0/%d", bits), 1)
		p.Subnets = append(p.Subnets, PlaceSubnet{Name: "containers", Prefix: prefix,
			More: kernel.Object{"delegations": []any{kernel.Object{"name": "alb",
				"properties": kernel.Object{
					"serviceName": "Microsoft.ServiceNetworking/trafficControllers"}}}}})
	}
}

// gatewayOnTable associates the gateway's subnet with the cluster's table.
func gatewayOnTable(c *Client, m fleetMember) error {
	return c.associate(m.nodeSubnet.Parent().Child("subnets", "appgw"), m.table)
}

// lockGroup locks the node resource group, or else the group of the network, in which AKS deletes
// nothing.
func lockGroup(nodes bool) func(*Client, fleetMember) error {
	return func(c *Client, m fleetMember) error {
		group := m.cluster.Group()
		if nodes {
			doc, err := c.Get(m.cluster, demoAKS)
			if err != nil {
				return err
			}
			group = arm.GroupID(m.cluster.Subscription(),
				kernel.Text(doc, "properties", "nodeResourceGroup"))
		}
		return c.Put(group+"/providers/Microsoft.Authorization/locks/keep", "2020-05-01",
			kernel.Object{"properties": kernel.Object{"level": "CanNotDelete"}})
	}
}
