package emulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/aks"
	"routekeeper.dev/routekeeper/internal/emulator/authorization"
	"routekeeper.dev/routekeeper/internal/emulator/entra"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Client calls an emulator's ARM API in the name of a principal, without a connection: by its own
// handler.
type Client struct {
	e *Emulator
	p Principal

	mu      sync.Mutex
	token   string
	expires time.Time
}

// Client returns a client for one of the principals.
func (e *Emulator) Client(p Principal) (*Client, error) {
	c := &Client{e: e, p: p}
	_, err := c.login()
	return c, err
}

// builder returns a client that builds a scenario, until end is called.
func (e *Emulator) builder(p Principal) (c *Client, end func(), err error) {
	token, end, err := e.entra.Session(p)
	return &Client{e: e, p: p, token: token, expires: time.Now().Add(entra.TokenLife)}, end, err
}

// login returns a token, a cached one while it is valid.
func (c *Client) login() (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	if time.Until(c.expires) < time.Minute {
		c.token, c.expires, err = c.e.Token(c.p, "https://management.core.windows.net/")
	}
	return c.token, err
}

// Do makes a call and returns the answer's status and body.
func (c *Client) Do(method string, id arm.ID, apiVersion string, body []byte) (int, []byte) {
	r, err := http.NewRequest(method, "http://localhost"+(string(id))+"?api-version="+apiVersion,
		bytes.NewReader(body))
	if err != nil {
		return 0, []byte(err.Error())
	}
	token, err := c.login()
	if err != nil {
		return 0, []byte(err.Error())
	}
	r.Header.Set("Authorization", "Bearer "+token)
	w := &recorder{header: http.Header{}}
	c.e.Public().ServeHTTP(w, r)
	return w.status, w.body.Bytes()
}

// Get reads a resource as an object.
func (c *Client) Get(id arm.ID, apiVersion string) (map[string]any, error) {
	status, body := c.Do(http.MethodGet, id, apiVersion, nil)
	if status != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %d %s", id, status, body)
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var o kernel.Object
	return o, d.Decode(&o)
}

// Put writes a resource, retrying while another operation is running on it, and while it is
// throttled.
func (c *Client) Put(id arm.ID, apiVersion string, body map[string]any) error {
	for {
		status, answer := c.Do(http.MethodPut, id, apiVersion, kernel.Encode(body))
		switch {
		case status == http.StatusOK, status == http.StatusCreated:
			return nil
		case status == http.StatusTooManyRequests:
		case status != http.StatusConflict || !strings.Contains(string(answer), "AnotherOperation"):
			return fmt.Errorf("PUT %s: %d %s", id, status, answer)
		}
		time.Sleep(c.e.opts.OperationTime/4 + time.Millisecond)
	}
}

// Strip removes a subnet's route table, like a redeploy whose template does not name the table.
func (c *Client) Strip(subnet arm.ID) error {
	doc, err := c.Get(subnet, demoNetwork)
	if err != nil {
		return err
	}
	delete(kernel.ObjectAt(doc, "properties"), "routeTable")
	return c.Put(subnet, demoNetwork, doc)
}

// recorder is a response in memory.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

func (r *recorder) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(p)
}

// Demo names the resources of the demo scenario.
type Demo struct {
	Cluster       arm.ID
	Pool          string
	NodeSubnet    arm.ID
	GatewaySubnet arm.ID
	ClusterTable  arm.ID
	GatewayTable  arm.ID
	Firewall      string // address of the firewall, the next hop of 0.0.0.0/0
	OwnRoute      string // name of the route in the gateway's table that is not a pod route
}

// demoNetwork and demoAKS are the api-versions the scenario is built with.
const (
	demoNetwork  = "2025-05-01"
	demoAKS      = "2025-10-01"
	demoIdentity = "2024-11-30"
	demoRoles    = "2022-04-01"
)

// gatewaySKU returns the SKU of the scenarios' Application Gateways.
func gatewaySKU() kernel.Object {
	return kernel.Object{"name": "Standard_v2", "tier": "Standard_v2", "capacity": 2}
}

// DemoIn names the demo's resources in a subscription.
func DemoIn(subscription string) Demo {
	vnet := arm.ResourceID(subscription, "net-rg", arm.TypeVNet, "shop-vnet")
	return Demo{
		Cluster:       arm.ResourceID(subscription, "shop-rg", arm.TypeCluster, "shop"),
		Pool:          "nodepool1",
		NodeSubnet:    vnet.Child("subnets", "nodes"),
		GatewaySubnet: vnet.Child("subnets", "appgw"),
		ClusterTable:  arm.ResourceID(subscription, "net-rg", arm.TypeRouteTable, "shop-rt"),
		GatewayTable:  arm.ResourceID(subscription, "net-rg", arm.TypeRouteTable, "appgw-rt"),
		Firewall:      "10.42.3.4",
		OwnRoute:      "to-branch-office",
	}
}

// firewallIn returns the body of an Azure Firewall, which gets the first address of its subnet.
func firewallIn(vnet arm.ID) kernel.Object {
	return kernel.Object{"properties": kernel.Object{"ipConfigurations": []any{kernel.Object{
		"name": "ip", "properties": kernel.Object{"subnet": kernel.Link(
			vnet.Child("subnets", "AzureFirewallSubnet"))}}}}}
}

// BuildDemo builds the demo scenario through the emulator's own handler: a network with a node
// subnet, an Application Gateway's subnet with its own table, and a kubenet cluster of three nodes
// in the existing subnet with its existing table, in which 0.0.0.0/0 leads to a firewall. It
// returns when the cluster's routes are written.
func BuildDemo(e *Emulator, as Principal) (d Demo, err error) {
	err = e.beforehand(func() error {
		d, err = buildDemo(e, as)
		return err
	})
	return d, err
}

// beforehand builds what exists at the start: meanwhile operations take no time, and nothing is
// throttled.
func (e *Emulator) beforehand(build func() error) error {
	set := func(before bool, operation time.Duration) {
		defer e.kernel.Lock()()
		e.kernel.Opts.OperationTime = operation
		e.kernel.Buckets.Lift(before)
	}
	set(true, 0)
	defer set(false, e.opts.OperationTime)
	return build()
}

func buildDemo(e *Emulator, as Principal) (Demo, error) {
	d := DemoIn(e.opts.Subscriptions[0])
	c, end, err := e.builder(as)
	if err != nil {
		return d, err
	}
	defer end()
	sub := d.Cluster.Subscription()
	nsg := arm.ResourceID(sub, "net-rg", "Microsoft.Network/networkSecurityGroups", "nodes-nsg")
	at := func(o kernel.Object) kernel.Object { o["location"] = "westeurope"; return o }
	link := func(id arm.ID) kernel.Object { return kernel.Link(id) }
	route := func(name, prefix, hopType, hop string) kernel.Object {
		p := kernel.Object{"addressPrefix": prefix, "nextHopType": hopType}
		if hop != "" {
			p["nextHopIpAddress"] = hop
		}
		return kernel.Object{"name": name, "properties": p}
	}
	gateway := arm.ResourceID(sub, "net-rg", arm.TypeGateway, "shop-agw")
	identity := arm.ResourceID(sub, "shop-rg", entra.TypeUserIdentity, "shop-identity")
	type step struct {
		id      arm.ID
		version string
		body    kernel.Object
	}
	for _, step := range []step{
		{arm.GroupID(sub, "net-rg"), "2024-03-01", at(kernel.Object{})},
		{arm.GroupID(sub, "shop-rg"), "2024-03-01", at(kernel.Object{})},
		{nsg, demoNetwork,
			at(kernel.Object{"properties": kernel.Object{"securityRules": []any{}}})},
		{d.ClusterTable, demoNetwork,
			at(kernel.Object{"properties": kernel.Object{
				"routes": []any{route("egress", "0.0.0.0/0", inventory.HopAppliance,
					d.Firewall)}}})},
		{d.GatewayTable, demoNetwork,
			at(kernel.Object{"properties": kernel.Object{
				"routes": []any{route(d.OwnRoute, "10.60.0.0/16", inventory.HopGateway, "")}}})},
		{d.NodeSubnet.Parent(), demoNetwork, at(kernel.Object{
			"tags": kernel.Object{"team": "network"},
			"properties": kernel.Object{
				"addressSpace": kernel.Object{"addressPrefixes": []any{"10.42.0.0/16"}},
				"subnets": []any{
					kernel.Object{"name": d.NodeSubnet.Name(), "properties": kernel.Object{
						"addressPrefix": "10.42.1.0/24", "routeTable": link(d.ClusterTable),
						"networkSecurityGroup": link(nsg),
						"serviceEndpoints": []any{
							kernel.Object{"service": "Microsoft.Storage",
								"locations": []any{"westeurope", "northeurope"}}},
						"defaultOutboundAccess": false,
						"notInAnySDK": kernel.Object{"answer": json.Number("42"),
							"why": "a field that no SDK knows survives, too"},
					}},
					kernel.Object{"name": d.GatewaySubnet.Name(), "properties": kernel.Object{
						"addressPrefix": "10.42.2.0/24", "routeTable": link(d.GatewayTable),
						"delegations": []any{
							kernel.Object{"name": "gateway",
								"properties": kernel.Object{"serviceName": arm.TypeGateway}}},
					}},
					kernel.Object{"name": "AzureFirewallSubnet",
						"properties": kernel.Object{"addressPrefix": "10.42.3.0/24"}},
				},
			},
		})},
		{arm.ResourceID(sub, "net-rg", arm.TypeFirewall, "hub"), demoNetwork,
			at(firewallIn(d.NodeSubnet.Parent()))},
		{gateway, demoNetwork,
			at(kernel.Object{"properties": kernel.Object{"sku": gatewaySKU(),
				"gatewayIPConfigurations": []any{
					kernel.Object{"name": "subnet",
						"properties": kernel.Object{"subnet": link(d.GatewaySubnet)}},
				}}})},
		{identity, demoIdentity, at(kernel.Object{})},
	} {
		if err := c.Put(step.id, step.version, step.body); err != nil {
			return d, err
		}
	}
	who, err := c.Get(identity, demoIdentity)
	if err != nil {
		return d, err
	}
	assignment := arm.GroupID(sub, "net-rg") +
		arm.ID("/providers/"+authorization.TypeRoleAssignment+
			"/a55160ed-0000-4000-8000-000000000001")
	if err := c.Put(assignment, demoRoles, kernel.Object{"properties": kernel.Object{
		"roleDefinitionId": authorization.RoleID(sub, authorization.NetworkContributor),
		"principalId": kernel.ObjectAt(who,
			"properties")["principalId"], "principalType": "ServicePrincipal",
	}}); err != nil {
		return d, err
	}
	e.DelayRole(assignment, 0)
	if err := c.Put(d.Cluster, demoAKS, at(kernel.Object{
		"identity": kernel.Object{"type": "UserAssigned", "userAssignedIdentities": kernel.Object{
			string(identity): kernel.Object{}}},
		"properties": kernel.Object{
			"networkProfile": kernel.Object{"networkPlugin": "kubenet",
				"outboundType": "userDefinedRouting"},
			"agentPoolProfiles": []any{kernel.Object{"name": d.Pool, "count": 3, "mode": "System",
				"vnetSubnetID": string(d.NodeSubnet)}},
		},
	})); err != nil {
		return d, err
	}
	return d, e.waitForRoutes(c, d.ClusterTable, 4)
}

// waitForRoutes waits until a table has that many routes, which the cloud providers write now.
func (e *Emulator) waitForRoutes(c *Client, table arm.ID, want int) error {
	const patience = 2 * time.Minute
	unlock := e.kernel.Lock()
	aks.WriteRoutes(e.aks)
	unlock()
	for deadline := time.Now().Add(patience); ; time.Sleep(e.opts.RouteBatch/4 +
		10*time.Millisecond) {
		doc, err := c.Get(table, demoNetwork)
		if err != nil {
			return err
		}
		have := len(kernel.ListAt(doc, "properties", "routes"))
		if have == want {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s holds %d routes after %s, want %d", table, have, patience, want)
		}
	}
}
