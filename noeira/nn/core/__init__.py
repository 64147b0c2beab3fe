"""The core of `noeira.nn`: module types, signatures, parameters, initial values and tracing."""
