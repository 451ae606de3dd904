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
	"routekeeper.dev/routekeeper/internal/emulator/entra"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
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

// Put writes a resource, retrying for a minute while another operation is running on it, and while
// it is throttled.
func (c *Client) Put(id arm.ID, apiVersion string, body map[string]any) error {
	for began := time.Now(); ; {
		status, answer := c.Do(http.MethodPut, id, apiVersion, kernel.Encode(body))
		switch {
		case status == http.StatusOK, status == http.StatusCreated:
			return nil
		case status == http.StatusTooManyRequests && time.Since(began) < time.Minute:
		case time.Since(began) > time.Minute || status != http.StatusConflict ||
			!strings.Contains(string(answer), "AnotherOperation") &&
				!strings.Contains(string(answer), "is in progress"): // of AKS
			return fmt.Errorf("PUT %s: %d %s", id, status, answer)
		}
		time.Sleep(c.e.opts.OperationTime/4 + time.Millisecond)
	}
}

// Strip removes a subnet's route table, like a redeploy whose template does not name the table.
func (c *Client) Strip(subnet arm.ID) error { return c.associate(subnet, "") }

// associate associates a subnet with a table, or with none.
func (c *Client) associate(subnet, table arm.ID) error {
	doc, err := c.Get(subnet, demoNetwork)
	if err != nil {
		return err
	}
	properties := kernel.ObjectAt(doc, "properties")
	delete(properties, "routeTable")
	if table != "" {
		properties["routeTable"] = arm.Link(table)
	}
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

// The api-versions that scenarios are built with, and their region.
const (
	demoGroups   = "2024-03-01"
	demoLocation = "westeurope"
	demoNetwork  = "2025-05-01"
	demoAKS      = "2025-10-01"
	demoIdentity = "2024-11-30"
	demoRoles    = "2022-04-01"
)

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
		OwnRoute:      BranchRoute,
	}
}

// BuildDemo builds the demo scenario through the emulator's own handler: a network with a node
// subnet, an Application Gateway's subnet with its own table, and a kubenet cluster of three nodes
// in the existing subnet with its existing table, in which 0.0.0.0/0 leads to a firewall. It
// returns when the cluster's routes are written.
func BuildDemo(e *Emulator, as Principal) (Demo, error) {
	d := DemoIn(e.opts.Subscriptions[0])
	return d, e.beforehand(as, func(c *Client) error { return d.build(e, c) })
}

// beforehand builds what exists at the start: meanwhile operations take no time, and nothing is
// throttled.
func (e *Emulator) beforehand(as Principal, build func(c *Client) error) error {
	set := func(before bool, operation time.Duration) {
		defer e.kernel.Lock()()
		e.kernel.Opts.OperationTime = operation
		e.kernel.Buckets.Lift(before)
	}
	set(true, 0)
	defer set(false, e.opts.OperationTime)
	token, end, err := e.entra.Session(as)
	if err != nil {
		return err
	}
	defer end()
	return build(&Client{e: e, p: as, token: token, expires: time.Now().Add(entra.TokenLife)})
}

func (d Demo) build(e *Emulator, c *Client) error {
	sub, vnet := d.Cluster.Subscription(), d.NodeSubnet.Parent()
	in := func(resourceType, name string) arm.ID {
		return arm.ResourceID(sub, vnet.ResourceGroup(), resourceType, name)
	}
	nsg := in(arm.TypeSecurityGroup, "nodes-nsg")
	if err := c.Make(Place{
		Cluster: d.Cluster, Network: vnet, Space: "10.42.0.0/16",
		Tags: kernel.Object{"team": "network"},
		Subnets: []PlaceSubnet{
			{d.NodeSubnet.Name(), "10.42.1.0/24", d.ClusterTable, kernel.Object{
				"networkSecurityGroup": arm.Link(nsg),
				"serviceEndpoints": []any{kernel.Object{"service": "Microsoft.Storage",
					"locations": []any{"westeurope", "northeurope"}}},
				"defaultOutboundAccess": false,
				"notInAnySDK": kernel.Object{"answer": json.Number("42"),
					"why": "a field that no SDK knows survives, too"},
			}},
			{d.GatewaySubnet.Name(), "10.42.2.0/24", d.GatewayTable, kernel.Object{
				"delegations": []any{kernel.Object{"name": "gateway",
					"properties": kernel.Object{"serviceName": arm.TypeGateway}}},
			}},
			{Name: "AzureFirewallSubnet", Prefix: "10.42.3.0/24"},
		},
		Linked: []PlaceResource{{nsg, kernel.Object{"securityRules": []any{}}},
			{d.ClusterTable, TableWith(DefaultRoute(d.Firewall))},
			{d.GatewayTable, TableWith(RouteToBranch("10.60.0.0/16"))}},
		Inside: []PlaceResource{{in(arm.TypeFirewall, "hub"), firewallIn(vnet)},
			{in(arm.TypeGateway, "shop-agw"), gatewayIn(d.GatewaySubnet)}},
		Identity: arm.ResourceID(sub, d.Cluster.ResourceGroup(), arm.TypeIdentity,
			"shop-identity"),
		RoleAssignment: "a55160ed-0000-4000-8000-000000000001",
		Profile: kernel.Object{"networkPlugin": "kubenet",
			"outboundType": "userDefinedRouting"},
		Pool: d.Pool, Nodes: 3,
	}); err != nil {
		return err
	}
	return e.waitForRoutes(c, d.ClusterTable, 4)
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
