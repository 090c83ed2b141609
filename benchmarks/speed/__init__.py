"""How fast forests are scored, against other engines: ``python -m benchmarks.speed``.

* `workloads`: the four forests that are measured, and their data
* `engines`: jaxunc and its peers, each as a function that answers
* `measure`: interleaved repetitions, medians, ratios
* `workload_run`: everything that is measured on one workload
* `memory`: temporaries of the compiled programs
* `first_call`: from a fitted model to the first answer, in a fresh process
* `import_time`: what importing the library costs beside JAX
* `sections`: rules, first calls by size, compilations of a cross-validation, import of a large forest
* `devices`: meshes of virtual devices; `multi_host`: the commands of a run on several machines (both run by themselves)
* `accelerator`: the form for accelerators, in parts that may fail (runs by itself)
* `rule_costs`: every combiner over the mean, by the depth of the trees (runs by itself)
* `imported`: models of other libraries (`imported_models`) against their own predictions and other engines
* `transduction`: transductive certainty against the trees that it does not grow, which `transduction_full` grows
* `machine`: what it ran on
* `rows_chart`, `shares_chart`: pictures of what files of results hold
* `report`: the JSON file and the table
"""
