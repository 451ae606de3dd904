// Package emulator runs a local Azure emulator for tests: Azure Resource Manager over HTTPS on
// loopback. It has virtual networks, route tables and AKS clusters, whose cloud provider writes
// their routes as the real one does. Real clients work against it unmodified: Azure SDKs, the Azure
// CLI, Terraform, kubectl.
//
// Start starts an emulator that ends with the test. Copy internal/clients/example_test.go for a
// test of your own. What the emulator does, and how faithful it is to Azure, is in
// docs/emulator.md.
//
// It is for tests only. A program that imports it imports package testing.
package emulator

import (
	"net/http"
	"path/filepath"
	"slices"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/kubernetes"
)

// Principal is an identity that can log in, and that the request log and the activity log name.
type Principal = emulator.Principal

// Default is the principal that clients log in as, unless Principals names others. It has all
// rights.
var Default = emulator.DefaultPrincipal

// Operator is the principal that Put and Strip write as. As on Azure, it is not the principal under
// test.
var Operator = Principal{
	Name: "operator", ClientID: "c11e0000-0000-4000-8000-0000000000ff", Secret: "operator-secret",
	ObjectID: "0b1ec700-0000-4000-8000-0000000000ff",
}

// Emulator is a running emulator. Its methods fail the test on errors.
type Emulator struct {
	// URL is where ARM and the login endpoints answer, over HTTPS.
	URL string
	// HTTPURL is the same over plain HTTP, for managed identities' tokens, with the control calls
	// under /_emulator/.
	HTTPURL string
	// Dir is a folder with emulator.json and ca.pem, as --emulator and ROUTEKEEPER_EMULATOR take
	// it.
	Dir string
	// CAFile is the certificate authority to trust, as PEM: SSL_CERT_FILE, REQUESTS_CA_BUNDLE.
	CAFile string
	// SubscriptionIDs are its subscriptions. The scenarios build in the first subscription.
	SubscriptionIDs []string
	// TenantID, ClientID and ClientSecret log in: azidentity.NewClientSecretCredential takes them.
	TenantID, ClientID, ClientSecret string
	// Demo names the resources of the demo scenario; zero without the scenario.
	Demo Demo

	t        testing.TB
	e        *emulator.Emulator
	operator *emulator.Client
	client   *http.Client
	first    Principal
}

// Demo names what the scenario demo builds.
type Demo struct {
	// Cluster is a kubenet cluster of three nodes, in Pool.
	Cluster, Pool string
	// NodeSubnet has ClusterTable, in which the cluster's cloud provider writes its routes.
	NodeSubnet, ClusterTable string
	// GatewaySubnet, of an Application Gateway, has GatewayTable, which has one route that is not a
	// pod route.
	GatewaySubnet, GatewayTable string
}

// Start runs an emulator until the test ends. It listens on loopback, on free ports unless the
// options name others. Without options it has one empty subscription, and every write is done when
// it is answered.
func Start(t testing.TB, o Options) *Emulator {
	t.Helper()
	e, err := o.start(t)
	if err != nil {
		t.Fatalf("starting the emulator: %v", err)
	}
	return e
}

func (o Options) start(t testing.TB) (*Emulator, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	azure := emulator.Options{
		Principals:           append(slices.Clone(o.Principals), Operator),
		CheckClusterIdentity: !o.AnyClusterIdentity, Key: emulator.SharedKey(),
		OperationTime: o.OperationTime, RouteBatch: o.RouteBatch, RouteCache: o.RouteCache,
		RoleDelay: o.RoleDelay, AlertDelay: o.AlertDelay, AsOf: o.AsOf, RouteLimit: o.RouteLimit,
		PageSize: o.PageSize, Log: o.Log,
	}
	azure.AddSubscriptions(o.Subscriptions, o.Tenants)
	if o.Persist != "" {
		azure.StateFile = filepath.Join(o.Persist, "state.db")
	}
	e, err := emulator.New(azure)
	if err != nil {
		return nil, err
	}
	t.Cleanup(e.Close)
	out := &Emulator{t: t, e: e, first: o.Principals[0], Dir: o.Persist}
	if out.Dir == "" {
		out.Dir = t.TempDir()
	}
	if out.operator, err = e.Client(Operator); err != nil {
		return nil, err
	}
	if err := out.build(o.Scenario, azure.Subscriptions[0]); err != nil {
		return nil, err
	}
	for _, f := range o.Faults {
		if _, err := e.Inject(f); err != nil {
			return nil, err
		}
	}
	if err := out.playKubernetes(o); err != nil {
		return nil, err
	}
	server, err := e.Start(out.Dir, o.HTTPS, o.HTTP)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Errorf("stopping the emulator: %v", err)
		}
	})
	info := server.Info
	out.URL, out.HTTPURL, out.CAFile = info.HTTPS, info.HTTP, info.CAFile
	out.SubscriptionIDs, out.TenantID = info.Subscriptions, info.TenantID
	out.ClientID, out.ClientSecret = info.ClientID, info.ClientSecret
	if out.client, err = info.Client(); err == nil {
		t.Cleanup(out.client.CloseIdleConnections)
	}
	return out, err
}

// build makes the scenario, unless the saved state has it already.
func (e *Emulator) build(scenario, subscription string) error {
	switch {
	case scenario == "demo":
		d := emulator.DemoIn(subscription)
		if !e.e.Restored() {
			if _, err := emulator.BuildDemo(e.e, Operator); err != nil {
				return err
			}
		}
		e.Demo = Demo{
			Cluster: string(d.Cluster), Pool: d.Pool,
			NodeSubnet: string(d.NodeSubnet), ClusterTable: string(d.ClusterTable),
			GatewaySubnet: string(d.GatewaySubnet), GatewayTable: string(d.GatewayTable),
		}
	case scenario == "fleet" && !e.e.Restored():
		_, err := emulator.BuildFleet(e.e, Operator)
		return err
	}
	return nil
}

func (e *Emulator) playKubernetes(o Options) error {
	if o.KubeAPIServer == "" {
		return nil
	}
	binaries, err := kubernetes.Find(o.KubeAPIServer, o.Etcd)
	if err != nil {
		return err
	}
	k, err := kubernetes.Join(e.e, kubernetes.Options{
		Binaries: binaries, Folder: filepath.Join(e.Dir, "kubernetes"), Fresh: !e.e.Restored(),
		Log: o.Log,
	})
	if err == nil {
		e.t.Cleanup(k.Close)
	}
	return err
}

// HTTPClient trusts the emulator's certificate authority. It has no login.
func (e *Emulator) HTTPClient() *http.Client { return e.client }

// Cloud returns the emulator as a cloud of the Azure SDK for Go.
func (e *Emulator) Cloud() cloud.Configuration {
	return cloud.Configuration{
		ActiveDirectoryAuthorityHost: e.URL + "/",
		Services: map[cloud.ServiceName]cloud.ServiceConfiguration{
			cloud.ResourceManager: {Endpoint: e.URL, Audience: audience},
		},
	}
}

const audience = "https://management.core.windows.net/"

// ClientOptions lead clients of the Azure SDK for Go to the emulator:
//
//	options := &arm.ClientOptions{ClientOptions: e.ClientOptions()}
//	armnetwork.NewSubnetsClient(e.SubscriptionIDs[0], e.Credential(), options)
//
// azidentity's credentials take them, too, with DisableInstanceDiscovery.
func (e *Emulator) ClientOptions() azcore.ClientOptions {
	return azcore.ClientOptions{Cloud: e.Cloud(), Transport: e.client}
}

// id fails the test if the text is not a resource ID.
func (e *Emulator) id(text string) arm.ID {
	e.t.Helper()
	id, err := arm.ParseID(text)
	if err != nil {
		e.t.Fatalf("%q: %v", text, err)
	}
	return id
}
