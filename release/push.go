package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/registry"
)

// push pushes the images, their SBOMs and the chart of a release, and prints their digests: the
// pipeline signs these. It logs in as docker and podman do.
func push(ctx context.Context, dist string, at addresses) error {
	if !at.known() {
		return errors.New("--repository is missing: it names the registry's repositories")
	}
	options := []remote.Option{remote.WithContext(ctx),
		remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	for _, of := range programs {
		image, err := pushImage(filepath.Join(dist, of.image), at.image(of), options)
		if err != nil {
			return err
		}
		repository, digest, _ := strings.Cut(image, "@")
		fmt.Printf("%[1]s=%[2]s\n%[1]s-name=%[3]s\n%[1]s-digest=%[4]s\n", of.image, image,
			repository, digest)
	}
	charts, err := filepath.Glob(filepath.Join(dist, "routekeeper-*.tgz"))
	if err != nil || len(charts) != 1 {
		return fmt.Errorf("%s: expected one chart, found %d", dist, len(charts))
	}
	chart, err := pushChart(charts[0], at.charts())
	if err != nil {
		return err
	}
	fmt.Printf("chart=%s\n", chart)
	return nil
}

// pushImage pushes a layout: the index under its version, and the SBOMs, which refer to its images.
func pushImage(folder, repository string, options []remote.Option) (string, error) {
	to, err := name.NewRepository(repository)
	if err != nil {
		return "", err
	}
	path, err := layout.FromPath(folder)
	if err != nil {
		return "", err
	}
	all, err := path.ImageIndex()
	if err != nil {
		return "", err
	}
	manifest, err := all.IndexManifest()
	if err != nil {
		return "", err
	}
	pushed := ""
	for _, d := range manifest.Manifests {
		if d.MediaType == types.OCIImageIndex {
			index, err := all.ImageIndex(d.Digest)
			if err != nil {
				return "", err
			}
			if err := remote.WriteIndex(to.Tag(d.Annotations[typeVersion]), index,
				options...); err != nil {
				return "", err
			}
			pushed = to.Digest(d.Digest.String()).String()
			continue
		}
		bom, err := all.Image(d.Digest)
		if err != nil {
			return "", err
		}
		if err := remote.Write(to.Digest(d.Digest.String()), bom, options...); err != nil {
			return "", err
		}
	}
	return pushed, nil
}

// pushChart pushes a packaged chart with Helm's own client.
func pushChart(path, repository string, options ...registry.ClientOption) (string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	c, err := loader.LoadFile(path)
	if err != nil {
		return "", err
	}
	client, err := registry.NewClient(append(options, registry.ClientOptWriter(os.Stderr))...)
	if err != nil {
		return "", err
	}
	pushed, err := client.Push(raw, repository+"/"+c.Name()+":"+c.Metadata.Version,
		registry.PushOptCreationTime(c.ModTime.Format(time.RFC3339)))
	if err != nil {
		return "", err
	}
	return repository + "/" + c.Name() + "@" + pushed.Manifest.Digest, nil
}
