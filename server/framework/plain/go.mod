module github.com/redo-go/redo/server/framework/plain

go 1.26.0

// Until the first release: the adapter and the middleware move together.
replace github.com/redo-go/redo => ../../../

require (
	github.com/go-chi/chi/v5 v5.5.0
	github.com/redo-go/redo v0.0.0-00010101000000-000000000000
)

require (
	github.com/go-json-experiment/json v1.27.2 // indirect
	github.com/stretchr/testify v1.12.1 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
)
