package main

import (
	"bytes"
	"encoding/pem"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	// typeSBOM is the type of the artifacts that hold an image's SBOM.
	typeSBOM = "application/vnd.cyclonedx+json"
	// typeVersion is the annotation that names the tag of an image in a layout.
	typeVersion = "org.opencontainers.image.ref.name"
	rootsModule = "golang.org/x/crypto/x509roots/fallback"
)

// writeImage writes a program's images of all Linux platforms as one OCI layout, each with its SBOM
// as a referrer.
func (r *release) writeImage(of program) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var boms []v1.Image
	base, err := r.baseLayer()
	if err != nil {
		return err
	}
	for _, platform := range r.platforms {
		system, processor, _ := strings.Cut(platform, "/")
		if system != "linux" {
			continue
		}
		image, err := r.image(of, platform, base)
		if err != nil {
			return err
		}
		about, err := partial.Descriptor(image)
		if err != nil {
			return err
		}
		about.Platform = &v1.Platform{OS: system, Architecture: processor}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: *about})
		bom, err := r.imageSBOM(of, platform, *about)
		if err != nil {
			return err
		}
		boms = append(boms, bom)
	}
	if len(boms) == 0 {
		return nil
	}
	index = mutate.Annotations(index, r.labels(of)).(v1.ImageIndex)
	path, err := layout.Write(filepath.Join(r.dist, of.image), empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		typeVersion: r.version})); err != nil {
		return err
	}
	for _, bom := range boms {
		if err := path.AppendImage(bom); err != nil {
			return err
		}
	}
	return nil
}

// labels describe a program's image.
func (r *release) labels(of program) map[string]string {
	const prefix = "org.opencontainers.image."
	labels := map[string]string{
		prefix + "title":       of.name,
		prefix + "description": "Keeps AKS pod routes and route tables correct",
		prefix + "licenses":    "Apache-2.0",
		prefix + "version":     r.version,
		prefix + "revision":    r.commit,
		prefix + "created":     r.date.Format(time.RFC3339),
	}
	if r.at.known() {
		labels[prefix+"source"], labels[prefix+"url"] = r.at.home(), r.at.home()
	}
	return labels
}

// The user of the image, which owns nothing in it.
const user = "65532"

// baseLayer has what a program needs on an empty file system: certificate authorities, the name of
// its user, and a folder for temporary files.
func (r *release) baseLayer() (v1.Layer, error) {
	folder := func(name string, mode fs.FileMode) file {
		return file{name: name, mode: fs.ModeDir | mode}
	}
	return r.layer([]file{
		folder("etc/", 0o755),
		{name: "etc/group", mode: 0o644, raw: []byte("routekeeper:x:" + user + ":\n")},
		{name: "etc/passwd", mode: 0o644,
			raw: []byte("routekeeper:x:" + user + ":" + user + "::/tmp:/sbin/nologin\n")},
		folder("etc/ssl/", 0o755), folder("etc/ssl/certs/", 0o755),
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, raw: authorities()},
		folder("tmp/", fs.ModeSticky|0o777),
	})
}

// authorities returns Mozilla's certificate authorities, as the Go project maintains them.
// Authorities that Mozilla trusts only for certificates issued before a date are left out: the file
// cannot express the date.
func authorities() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
		}
	}
	return out.Bytes()
}

func (r *release) layer(files []file) (v1.Layer, error) {
	var out bytes.Buffer
	if err := r.tar(&out, files); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(out.Bytes())), nil
	}, tarball.WithCompressionLevel(6), tarball.WithCompressedCaching,
		tarball.WithMediaType(types.OCILayer))
}

// image returns the image of a program for a platform.
func (r *release) image(of program, platform string, base v1.Layer) (v1.Image, error) {
	program, err := os.ReadFile(r.binary(of, platform))
	if err != nil {
		return nil, err
	}
	layer, err := r.layer([]file{{name: "usr/", mode: fs.ModeDir | 0o755},
		{name: "usr/bin/", mode: fs.ModeDir | 0o755},
		{name: "usr/bin/" + of.name, mode: 0o755, raw: program}})
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1),
		types.OCIConfigJSON)
	system, processor, _ := strings.Cut(platform, "/")
	created := v1.Time{Time: r.date}
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		OS: system, Architecture: processor, Created: created,
		RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{}},
		Config: v1.Config{Entrypoint: []string{"/usr/bin/" + of.name}, User: user + ":" + user,
			WorkingDir: "/", Env: []string{"PATH=/usr/bin", "HOME=/tmp"}, Labels: r.labels(of)},
	})
	if err != nil {
		return nil, err
	}
	image, err = mutate.Append(image, mutate.Addendum{Layer: base,
		History: v1.History{Created: created, CreatedBy: "certificate authorities"}},
		mutate.Addendum{Layer: layer,
			History: v1.History{Created: created, CreatedBy: of.name + " " + r.version}})
	if err != nil {
		return nil, err
	}
	return mutate.Annotations(image, r.labels(of)).(v1.Image), nil
}

// imageSBOM returns an artifact that refers to an image and has its SBOM.
func (r *release) imageSBOM(of program, platform string, image v1.Descriptor) (v1.Image, error) {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == rootsModule {
				version = m.Version
			}
		}
	}
	raw, err := r.sbom(of, platform, []cdx.Component{component(rootsModule, version)})
	if err != nil {
		return nil, err
	}
	artifact := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1),
		typeSBOM)
	artifact, err = mutate.Append(artifact, mutate.Addendum{
		Layer: static.NewLayer(raw, typeSBOM)})
	if err != nil {
		return nil, err
	}
	image.Platform = nil
	return mutate.Subject(artifact, image).(v1.Image), nil
}
