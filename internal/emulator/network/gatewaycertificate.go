package network

import (
	"encoding/asn1"
	"encoding/base64"

	"golang.org/x/crypto/pkcs12"

	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// keepPublic replaces the PFX files that clients send with their public part, because Azure shows
// nothing else of them (documented: publicCertData). A certificate that is sent without its file
// keeps the one that it has.
func keepPublic(properties kernel.Object, old *kernel.Resource) {
	was := map[string]any{}
	if old != nil {
		for _, c := range kernel.ListAt(old.Properties(), "sslCertificates") {
			was[kernel.Text(c, "name")] = kernel.ObjectAt(c, "properties")["publicCertData"]
		}
	}
	for _, c := range kernel.ListAt(properties, "sslCertificates") {
		p := kernel.ObjectAt(c, "properties")
		if p == nil {
			continue
		}
		public := was[kernel.Text(c, "name")]
		if data := kernel.Text(p, "data"); data != "" {
			public = publicPart(data, kernel.Text(p, "password"))
		}
		for _, field := range []string{"data", "password", "publicCertData"} {
			delete(p, field)
		}
		if public != nil {
			p["publicCertData"] = public
		}
	}
}

// publicPart returns the certificates of a PFX file as PKCS #7 without a signature, nil if the file
// cannot be read.
func publicPart(data, password string) any {
	pfx, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return nil
	}
	blocks, err := pkcs12.ToPEM(pfx, password)
	if err != nil {
		return nil
	}
	var certificates []byte
	for _, b := range blocks {
		if b.Type == "CERTIFICATE" {
			certificates = append(certificates, b.Bytes...)
		}
	}
	type content struct{ Type asn1.ObjectIdentifier }
	tagged := func(bytes []byte) asn1.RawValue {
		return asn1.RawValue{Class: asn1.ClassContextSpecific, IsCompound: true, Bytes: bytes}
	}
	pkcs7 := func(kind int) asn1.ObjectIdentifier {
		return asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, kind}
	}
	signed, err := asn1.Marshal(struct {
		Version      int
		Digests      []int `asn1:"set"`
		Content      content
		Certificates asn1.RawValue
		Signers      []int `asn1:"set"`
	}{1, nil, content{pkcs7(1)}, tagged(certificates), nil})
	if err != nil {
		return nil
	}
	whole, err := asn1.Marshal(struct {
		Type   asn1.ObjectIdentifier
		Signed asn1.RawValue
	}{pkcs7(2), tagged(signed)})
	if err != nil {
		return nil
	}
	return base64.StdEncoding.EncodeToString(whole)
}
