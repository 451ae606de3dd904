package emulator

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"routekeeper.dev/routekeeper/internal/emulator"
)

// Option is a setting of an emulator. Every flag of routekeeper emulator has one.
type Option func(*settings)

type settings struct {
	azure                  emulator.Options
	https, http            string
	dir, scenario          string
	subscriptions, tenants int
	faults                 []Fault
	apiServer, etcd        string
}

// WithDemo starts with a network, a kubenet cluster of three nodes and an Application Gateway's
// subnet with its own table; Emulator.Demo names them.
func WithDemo() Option { return func(s *settings) { s.scenario = "demo" } }

// WithFleet starts with 30 kubenet clusters, one of 50 and one of 390 nodes: four are broken, one
// is stopped, one migrates, and the network of one cannot be read.
func WithFleet() Option { return func(s *settings) { s.scenario = "fleet" } }

// Subscriptions sets the number of subscriptions: 1 by default.
func Subscriptions(n int) Option { return func(s *settings) { s.subscriptions = n } }

// Tenants sets the number of tenants: 1 by default. The subscriptions are assigned to them in turn.
func Tenants(n int) Option { return func(s *settings) { s.tenants = n } }

// Principals replace Default. The first has all rights. The others are Owners, unless their NoRoles
// is set.
func Principals(all ...Principal) Option {
	return func(s *settings) { s.azure.Principals = append([]Principal(nil), all...) }
}

// AnyClusterIdentity lets clusters write to existing networks without a role there, which Azure
// refuses.
func AnyClusterIdentity() Option {
	return func(s *settings) { s.azure.CheckClusterIdentity = false }
}

// OperationTime sets how long a long-running operation takes. By default a write is done when it is
// answered.
func OperationTime(d time.Duration) Option {
	return func(s *settings) { s.azure.OperationTime = d }
}

// RouteTimes sets how long a cluster's cloud provider collects route changes before it writes them,
// and how long it trusts its copy of the route table: 30 seconds and 2 minutes on Azure, no time by
// default.
func RouteTimes(batch, cache time.Duration) Option {
	return func(s *settings) { s.azure.RouteBatch, s.azure.RouteCache = batch, cache }
}

// RoleDelay sets how long a new role assignment takes to have an effect: up to 60 minutes on Azure.
func RoleDelay(d time.Duration) Option { return func(s *settings) { s.azure.RoleDelay = d } }

// AlertDelay sets how long after a write its activity log alerts fire: 3 to 20 minutes on Azure.
func AlertDelay(d time.Duration) Option { return func(s *settings) { s.azure.AlertDelay = d } }

// AsOf answers as Azure did on a date, because some of its defaults have changed over the years.
// Today by default.
func AsOf(date time.Time) Option { return func(s *settings) { s.azure.AsOf = date } }

// RouteLimit sets how many routes a table holds: 400 by default.
func RouteLimit(n int) Option { return func(s *settings) { s.azure.RouteLimit = n } }

// PageSize sets how many resources a page of a list holds: 100 by default.
func PageSize(n int) Option { return func(s *settings) { s.azure.PageSize = n } }

// Faults injects faults at the start, after a scenario is built.
func Faults(all ...Fault) Option {
	return func(s *settings) { s.faults = append(s.faults, all...) }
}

// Persist keeps the state in a folder. An emulator started later with the same folder continues
// with it, at the same addresses if they are free.
func Persist(dir string) Option { return func(s *settings) { s.dir = dir } }

// Listen sets the addresses at which it listens for HTTPS and for plain HTTP, such as
// 127.0.0.1:8443.
func Listen(https, http string) Option {
	return func(s *settings) { s.https, s.http = https, http }
}

// KubeAPIServer gives each cluster a real Kubernetes API server, with etcd, controllers and
// scheduler: the programs are next to kube-apiserver; etcd can have another path ("": the
// same folder). All calls between simulated pods arrive.
func KubeAPIServer(path, etcd string) Option {
	return func(s *settings) { s.apiServer, s.etcd = path, etcd }
}

// Log receives messages for the person at the terminal; on level debug, every request.
func Log(log *slog.Logger) Option { return func(s *settings) { s.azure.Log = log } }

func (s *settings) log() *slog.Logger {
	if s.azure.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.azure.Log
}

// check refuses contradictory settings and fills in the rest.
func (s *settings) check() error {
	s.subscriptions, s.tenants = max(s.subscriptions, 1), max(s.tenants, 1)
	if s.tenants > s.subscriptions {
		return fmt.Errorf("%d tenants need as many subscriptions, not %d", s.tenants,
			s.subscriptions)
	}
	times := []time.Duration{
		s.azure.OperationTime, s.azure.RouteBatch, s.azure.RouteCache, s.azure.RoleDelay,
		s.azure.AlertDelay,
	}
	for _, d := range times {
		if d < 0 {
			return fmt.Errorf("a time of %s is in the past", d)
		}
	}
	if s.etcd != "" && s.apiServer == "" {
		return errors.New("etcd is for a kube-apiserver only")
	}
	if len(s.azure.Principals) == 0 {
		s.azure.Principals = []Principal{Default}
	}
	s.azure.Principals = append(s.azure.Principals, Operator)
	s.azure.Number(s.subscriptions, s.tenants)
	if s.dir != "" {
		s.azure.StateFile = filepath.Join(s.dir, "state.db")
	}
	return nil
}
