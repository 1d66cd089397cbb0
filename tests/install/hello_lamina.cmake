# Installs the build in BINARY_DIR to a fresh folder, builds the examples against it and runs them.
#   cmake -D SOURCE_DIR=... -D BINARY_DIR=... -D CXX_COMPILER=... -D VERSION=... -P hello_lamina.cmake
set(work ${BINARY_DIR}/install_test)
file(REMOVE_RECURSE ${work})

function(run)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\nfailed with ${result}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

run(${CMAKE_COMMAND} --install ${BINARY_DIR} --prefix ${work}/prefix)
run(${work}/prefix/bin/lamina --version)
if(NOT output STREQUAL "lamina ${VERSION}\n")
  message(FATAL_ERROR "the installed command says '${output}'")
endif()
run(${CMAKE_COMMAND} -S ${SOURCE_DIR}/examples/hello_lamina -B ${work}/build -G Ninja
    -D CMAKE_PREFIX_PATH=${work}/prefix -D CMAKE_CXX_COMPILER=${CXX_COMPILER})
run(${CMAKE_COMMAND} --build ${work}/build)
run(${work}/build/hello_lamina)
if(NOT output MATCHES "Lamina ${VERSION}")
  message(FATAL_ERROR "hello_lamina says '${output}'")
endif()

# The provider plugins, as their authors would build them, loaded by the installed command.
foreach(plugin simulated_accelerator c_provider)
  run(${CMAKE_COMMAND} -S ${SOURCE_DIR}/examples/${plugin} -B ${work}/${plugin} -G Ninja
      -D CMAKE_PREFIX_PATH=${work}/prefix -D CMAKE_CXX_COMPILER=${CXX_COMPILER} -D CMAKE_BUILD_TYPE=Release)
  run(${CMAKE_COMMAND} --build ${work}/${plugin})
  run(${work}/prefix/bin/lamina devices --provider-library ${work}/${plugin}/lib${plugin}.so)
  if(output MATCHES "not available: [^:]*${plugin}" OR NOT output MATCHES "[gn]pu:0 ")
    message(FATAL_ERROR "with ${plugin} the installed command says\n${output}")
  endif()
endforeach()
