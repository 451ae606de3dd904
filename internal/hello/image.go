package hello

// Released is the image of this program's releases. There is none yet.
const Released = ""

// Local names the image on the emulator, which pulls nothing.
const Local = "routekeeper:local"
