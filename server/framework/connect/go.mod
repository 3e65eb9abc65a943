module github.com/redo-go/redo/server/framework/connect

go 1.26.0

// Until the first release: the adapter and the middleware move together.
replace github.com/redo-go/redo => ../../../

require (
	connectrpc.com/connect v1.21.1
	github.com/redo-go/redo v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
	google.golang.org/protobuf v1.36.12
)

require (
	github.com/go-json-experiment/json v1.27.2 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
)
