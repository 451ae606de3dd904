// Package bundle writes everything that a diagnosis reads into one file, and reads it again. So
// another person can diagnose a network without access to it, and two bundles show what changed
// between them.
//
// A bundle is a .tar.gz of text files that you can read before you pass it on: manifest.json, the
// ARM documents under arm/ by their IDs, and what Kubernetes shows under kubernetes/. It holds no
// secrets (redact.go), but names, addresses and IDs are unchanged.
//
// The package is pure: it must not know where the bytes come from or go.
package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/config"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// format is the version of the layout. A later version may add files and fields, but must not
// change the meaning of these.
const format = 1

// A bundle may come from an untrusted source, so the unpacked size in bytes and the number of
// members are limited.
const (
	maxFile    = 64 << 20
	maxTotal   = 256 << 20
	maxMembers = 100_000
)

// Bundle is a snapshot and the options that it was read with.
type Bundle struct {
	Snapshot *inventory.Snapshot
	// Program is the version that made it.
	Program string
	// Clusters are the clusters to diagnose. Configs are their configs; if Proposed is set, they
	// are the ones that init would propose.
	Clusters []arm.ID
	Configs  []v1alpha1.ClusterRoutes
	Proposed bool
}

// manifest is manifest.json: everything without its own document.
type manifest struct {
	Format       int                                    `json:"format"`
	Program      string                                 `json:"program"`
	Taken        time.Time                              `json:"taken"`
	Clusters     []arm.ID                               `json:"clusters"`
	Proposed     bool                                   `json:"proposed,omitempty"`
	Configs      []v1alpha1.ClusterRoutes               `json:"configs,omitempty"`
	Listed       []arm.ID                               `json:"listed,omitempty"`
	InterfacesOf []arm.ID                               `json:"interfacesOf,omitempty"`
	Unread       map[string]inventory.Unread            `json:"unread,omitempty"`
	Known        map[string]inventory.Known             `json:"known,omitempty"`
	Caller       string                                 `json:"caller,omitempty"`
	CallerRights map[string]inventory.Rights            `json:"ownRights,omitempty"`
	Rights       map[string]map[string]inventory.Rights `json:"rights,omitempty"`
	Writers      map[string]inventory.Writer            `json:"writers,omitempty"`
	Had          map[string][]inventory.Former          `json:"had,omitempty"`
	Policies     []inventory.AssignedPolicy             `json:"policies,omitempty"`
	Egress       *egress                                `json:"egress,omitempty"`
}

// egress says what was read of firewalls and extensions beyond their documents; it is there if they
// were read at all.
type egress struct {
	ExtensionsOf []arm.ID          `json:"extensionsOf,omitempty"`
	Unread       map[string]string `json:"unread,omitempty"`
}

// Write writes a bundle. The same bundle gives the same bytes.
func Write(w io.Writer, b Bundle) error {
	compressed := gzip.NewWriter(w)
	archive := tar.NewWriter(compressed)
	err := writeFiles(b, func(name string, data []byte) error {
		header := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(data)),
			ModTime: b.Snapshot.Taken, Format: tar.FormatPAX}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err := archive.Write(data)
		return err
	})
	return errors.Join(err, archive.Close(), compressed.Close())
}

func writeFiles(b Bundle, file func(name string, data []byte) error) error {
	s := b.Snapshot
	m := manifest{
		Format: format, Program: b.Program, Taken: s.Taken, Clusters: b.Clusters,
		Proposed: b.Proposed, Configs: b.Configs,
		Listed: s.Listed, InterfacesOf: s.InterfacesOf, Unread: s.Unread,
		Known:  map[string]inventory.Known{},
		Caller: s.Caller, CallerRights: s.CallerRights, Rights: s.Rights, Writers: s.Writers,
		Had: s.Former, Policies: s.Policies,
	}
	if e := s.Egress; e != nil {
		m.Egress = &egress{e.ExtensionsOf, e.Unread}
	}
	for key, c := range s.Clusters {
		m.Known[key] = s.Known(c.ID)
	}
	if err := writeJSON("manifest.json", m, file); err != nil {
		return err
	}
	for _, document := range documents(s) {
		clean, err := redact(document.Raw)
		if err != nil {
			return fmt.Errorf("%s: %w", document.ID, err)
		}
		if err := file("arm"+document.ID.Key()+".json", clean); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.Kubernetes)) {
		if err := writeJSON("kubernetes"+key+".json", s.Kubernetes[key], file); err != nil {
			return err
		}
	}
	return nil
}

func writeJSON(name string, value any, file func(string, []byte) error) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return file(name, append(data, '\n'))
}

// documents returns all documents of a snapshot, sorted by ID. A network includes its subnets if
// both were read.
func documents(s *inventory.Snapshot) []arm.Document {
	all := slices.Concat(of(s.Clusters), of(s.VNets), of(s.Tables), of(s.SecurityGroups),
		of(s.Gateways), of(s.Interfaces), of(s.Locks), of(s.Firewalls),
		of(s.Balancers))
	for _, d := range s.Subnets {
		if s.VNets[d.ID.Parent().Key()] == nil {
			all = append(all, d.Document)
		}
	}
	if e := s.Egress; e != nil {
		all = slices.Concat(all, of(e.Policies), of(e.Groups), of(e.IPGroups), of(e.Extensions))
	}
	slices.SortFunc(all, func(a, b arm.Document) int {
		return strings.Compare(a.ID.Key(), b.ID.Key())
	})
	return all
}

// of returns the documents of some resources.
func of[T interface{ Received() arm.Document }](resources map[string]T) []arm.Document {
	var all []arm.Document
	for _, r := range resources {
		all = append(all, r.Received())
	}
	return all
}

// Read reads a bundle. It ignores unknown files, which a later version may have added.
func Read(r io.Reader) (Bundle, error) {
	compressed, err := gzip.NewReader(r)
	if err != nil {
		return Bundle{}, fmt.Errorf("it is not a .tgz file: expected a file that routekeeper " +
			"doctor collect wrote")
	}
	archive := tar.NewReader(compressed)
	b := Bundle{Snapshot: inventory.NewSnapshot()}
	found := false
	left := int64(maxTotal)
	for members := 0; ; members++ {
		if members > maxMembers {
			return Bundle{}, fmt.Errorf("it has more than %d members", maxMembers)
		}
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Bundle{}, fmt.Errorf("it cannot be unpacked, it may be cut off: %w", err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if header.Size > maxFile {
			return Bundle{}, fmt.Errorf("%s: it is larger than %d MiB", header.Name, maxFile>>20)
		}
		// Sparse members take no room in the archive, so the total counts what they unpack to.
		if left -= header.Size; left < 0 {
			return Bundle{}, fmt.Errorf("it unpacks to more than %d MiB", maxTotal>>20)
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			return Bundle{}, fmt.Errorf("%s: it cannot be unpacked, it may be cut off: %w",
				header.Name, err)
		}
		if err := b.add(path.Clean(header.Name), data, &found); err != nil {
			return Bundle{}, fmt.Errorf("%s: %w", header.Name, err)
		}
	}
	if !found {
		return Bundle{}, errors.New("it has no manifest.json: expected a file that routekeeper " +
			"doctor collect wrote")
	}
	return b, nil
}

// add decodes one file of a bundle.
func (b *Bundle) add(name string, data []byte, manifested *bool) error {
	s := b.Snapshot
	kind, rest, _ := strings.Cut(name, "/")
	switch {
	case name == "manifest.json" && *manifested:
		return errors.New("the bundle has a second one")
	case name == "manifest.json":
		*manifested = true
		return b.addManifest(data)
	case kind == "arm":
		return s.Add(data)
	case kind == "kubernetes":
		k := &inventory.Kubernetes{}
		if err := json.Unmarshal(data, k); err != nil {
			return err
		}
		s.Kubernetes["/"+strings.TrimSuffix(rest, ".json")] = k
	}
	return nil
}

func (b *Bundle) addManifest(data []byte) error {
	var m manifest
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&m); err != nil {
		return err
	}
	if m.Format != format {
		return fmt.Errorf("format %d, expected %d: it was written by routekeeper %s", m.Format,
			format, m.Program)
	}
	for i, c := range m.Configs {
		if err := config.CheckName(c.Metadata.Name); err != nil {
			return fmt.Errorf("metadata.name of config %d: %w", i+1, err)
		}
	}
	b.Program, b.Clusters, b.Configs, b.Proposed = m.Program, m.Clusters, m.Configs, m.Proposed
	s := b.Snapshot
	s.Taken, s.Listed, s.InterfacesOf, s.Caller = m.Taken, m.Listed, m.InterfacesOf, m.Caller
	maps.Copy(s.Unread, m.Unread)
	maps.Copy(s.CallerRights, m.CallerRights)
	maps.Copy(s.Rights, m.Rights)
	maps.Copy(s.Writers, m.Writers)
	maps.Copy(s.Former, m.Had)
	s.Policies = m.Policies
	if m.Egress != nil {
		s.WithEgress().ExtensionsOf = m.Egress.ExtensionsOf
		maps.Copy(s.Egress.Unread, m.Egress.Unread)
	}
	for key, k := range m.Known {
		*s.Learn(arm.ID(key)) = k
	}
	return nil
}
